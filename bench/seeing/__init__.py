"""What it costs a busy process that `roamlet top` looks at it all the time."""
