"""What many contexts cost their parent: opened directly, and behind hubs."""
