"""The files of a zygote, which travel as one text: see `main.py`. None of them is imported."""
