"""What one context has been sent of this process's modules, and what is sent ahead of its calls. Which modules those
are: roamlet.remote.modules.
"""
