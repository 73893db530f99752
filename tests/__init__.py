"""Tests mirror the rooms of `app`; fakes/ holds stand-ins for the outside world."""
