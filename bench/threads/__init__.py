"""Two OS threads that hand over to each other, by roamlet.threads and by the standard library, on one core and on two."""
