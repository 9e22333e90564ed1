"""What one context has been sent of this process's modules, and what is sent ahead of its calls. `modules` decides which."""
