"""What all of roamlet.remote uses: its background threads, deadlines, descriptors, and the facts of a target. Knows no link."""
