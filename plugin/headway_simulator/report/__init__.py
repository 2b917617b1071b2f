"""The report of runs: their figures, and the forms in which they are shown.

summary       the figures of one run, by class and in total
report        a comparison as a text table, CSV and JSON
engine_words  the engine and what disturbs it, in words and as JSON
charts        a comparison as charts
page          a comparison as one HTML page
"""
