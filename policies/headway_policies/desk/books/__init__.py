"""The books of the desk: the record of a ticket and its phases, the seats, the deadlines, and the counts by class."""
