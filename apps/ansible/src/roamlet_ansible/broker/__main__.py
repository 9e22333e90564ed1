"""`python -m roamlet_ansible.broker DESCRIPTOR FOLDER CONTROLLER RUN`: what start.py runs."""

import sys

from .server import main

if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], int(sys.argv[3]), sys.argv[4])
