"""A soft hardware clock for machines without one, put on many of them at once over ssh. An app on roamlet's public names."""

__version__ = "0.1.0"
