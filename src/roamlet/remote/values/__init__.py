"""What travels besides plain data: classes and functions on the way down, answers and errors on the way up."""
