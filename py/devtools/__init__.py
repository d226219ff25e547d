"""What dev.py is made of: setting up, building, serving, testing, measuring. Standard library."""
