"""The page Control: the presets, what another one would change, trials, commands, and the audit log.

page            the order of the parts, and what runs now
preset_cards    a card for each preset
forecast_view   the predicted effect of each preset
preset_change   what a preset would change, and the form that applies it
trial_watch     the trial that goes on: keep it or undo it
undo            earlier revisions
commands        the table of the commands beside a preset, and their cards
command_form    reason, name and confirmation of a command
results         the answer to the last press of a button
audit_log       who has changed what
"""

from headway_dashboard.pages.control.page import PAGE

__all__ = ["PAGE"]
