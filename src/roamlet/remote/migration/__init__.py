"""Running tasklets that move: to a context, from there to another one, and back. What is packed is roamlet.snapshot's."""
