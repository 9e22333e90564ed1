"""Libraries written for the standard library, under roamlet.patch, gevent's monkey patching, and threads."""
