"""What runs on the servers: standard library and the syntax of Python 3.6 alone; sent there in memory, plain data come up."""
