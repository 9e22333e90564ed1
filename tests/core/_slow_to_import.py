"""What a test imports anew: a module whose body runs some hundred instructions."""

first = 1
for i in range(100):
    first += i
last = first
