"""The output of commands that have more than a table to say: JSON, CSV files and pages as well."""
