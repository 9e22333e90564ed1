"""What the connection plugins share: they run in ansible's worker processes, beside core's own plugins, and import no roamlet."""
