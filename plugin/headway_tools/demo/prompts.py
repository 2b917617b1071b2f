"""Prompts of the demo's clients: short questions for interactive classes, tasks for batch jobs."""

from __future__ import annotations

PROMPTS: dict[str, tuple[str, ...]] = {
    "realtime": (
        "Greet a passenger at the ticket desk in one short sentence.",
        "Is a window seat or an aisle seat better on a long ride? Answer in one sentence.",
        "Which platform would you pick: one or two? Say one word.",
        "Give me a polite way to say that the train is late.",
        "What is the capital of Portugal?",
        "Finish the sentence: The next train leaves at",
        "Name a colour that is easy to see in fog.",
    ),
    "normal": (
        "Explain in two sentences why buses come in bunches.",
        "Write a notice that the station cafe closes at nine.",
        "How does a railway signal keep two trains apart?",
        "Suggest three names for a night train to the mountains.",
        "What should I pack for a day context by the sea?",
        "Describe the sound of an old steam engine to a child.",
    ),
    "batch": (
        "Summarise: The line was closed for repairs in spring, reopened in June, and has carried more people each "
        "month since. The operator added two early trains, and issues about crowding fell by half.",
        "Put these stops into alphabetical order: Harbour, Castle, Old Mill, Airport, Brewery, Long Meadow.",
        "Write a paragraph about the history of timetables for a school magazine.",
        "List the steps of checking a carriage before it leaves the depot.",
        "Turn into a friendly letter: fare refused, card expired, please renew within thirty days.",
        "Write product texts for a travel mug, a folding umbrella and a pocket map.",
    ),
}
