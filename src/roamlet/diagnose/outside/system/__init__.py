"""What the operating system gives of a process: its memory and core files, ELF, its threads and descriptors, and stopping it."""
