"""What runs on the machines themselves, Python 2.7, or 3.6 and later: it is sent as it stands, and nothing of it stays there."""
