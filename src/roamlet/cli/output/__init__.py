"""What is printed about many hosts: progress, results, failures."""
