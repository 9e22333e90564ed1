"""What `roamlet doctor` looks at: this machine, the packages beside roamlet, and hosts. Nothing is changed anywhere."""
