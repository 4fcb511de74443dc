"""Print the benchmark's tables: python tests/benchmarks [--figure1]."""

import argparse

import machine  # first: it sets the threads of everything that is imported after it

# isort: split
import costs
import fits
import gradients
import peers

parser = argparse.ArgumentParser(prog="tests/benchmarks", description=__doc__)
parser.add_argument("--figure1", action="store_true", help="run all 600 fits of Figure 1")
parser.add_argument("--repetitions", type=int, default=41, help="rounds of the first table")
parser.add_argument("--only", metavar="WORD", help="sections whose title holds the word")
options = parser.parse_args()

SECTIONS = {
    "Loss and gradient, Setting I, K = 4, n = 100,000": lambda: gradients.report(
        repetitions=options.repetitions
    ),
    "A bounded fit, n = 20,000": fits.report,
    "The same fit by JAX and PyTorch": peers.report,
    "Memory": costs.memory,
    "Time and n": costs.with_n,
    "Time and the number of parameters p, n = 20,000": costs.with_parameters,
    "Figure 1 on one core": lambda: costs.figure1(options.figure1),
}

print(machine.header())
for title, report in SECTIONS.items():
    if options.only and options.only not in title:
        continue
    print(f"\n### {title}\n", flush=True)
    print(report(), flush=True)
