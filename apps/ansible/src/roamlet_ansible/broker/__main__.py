"""`python -m roamlet_ansible.broker DESCRIPTOR FOLDER CONTROLLER RUN`: what start.py runs."""

import gc
import sys

gc.disable()  # while modules are imported it would look through all of them some ten times

from .server import main  # noqa: E402

gc.enable()

if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], int(sys.argv[3]), sys.argv[4])
