"""Values that are more than plain: objects of classes, functions, messages that are too large for one frame. Plain ones: codec."""
