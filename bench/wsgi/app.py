"""What is served: a small Flask application with a query of a database in memory. `/cpu` says what its process has used."""

import sqlite3
import time

from flask import Flask, Response, jsonify

app = Flask(__name__)

database = sqlite3.connect(":memory:", check_same_thread=False)
database.execute("CREATE TABLE product (number INTEGER PRIMARY KEY, name TEXT)")
database.executemany("INSERT INTO product VALUES (?, ?)", ((number, f"product {number}") for number in range(1000)))


@app.get("/product/<int:number>")
def product(number: int) -> Response:
    row = database.execute("SELECT name FROM product WHERE number = ?", (number,)).fetchone()
    return jsonify(number=number, name=row[0])


@app.get("/waiting/<int:number>")
def waiting(number: int) -> Response:
    """The same after a wait, such as that for another server."""
    time.sleep(0.005)
    return product(number)


@app.get("/cpu")
def cpu() -> Response:
    return Response(repr(time.process_time()))
