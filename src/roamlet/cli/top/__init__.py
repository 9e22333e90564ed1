"""What `roamlet top` is made of: looks at processes again and again, what they show, and the terminal it is shown on."""
