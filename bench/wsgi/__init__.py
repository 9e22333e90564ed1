"""WSGI applications in gunicorn: requests per second of CPU of a worker, roamlet's beside gevent's and threads."""
