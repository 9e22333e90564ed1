"""What `roamlet demo` sends to its contexts and moves through them."""
