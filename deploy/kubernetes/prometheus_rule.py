"""Write deploy/prometheus/rules.yml as the PrometheusRule that the Prometheus operator reads.

``python deploy/kubernetes/prometheus_rule.py`` writes components/monitoring/rules.yaml beside it.
"""

from pathlib import Path

RULES = Path(__file__).parent.parent / "prometheus" / "rules.yml"
WRITTEN = Path(__file__).parent / "components" / "monitoring" / "rules.yaml"
_HEAD = """\
# Written by deploy/kubernetes/prometheus_rule.py from deploy/prometheus/rules.yml; change neither by hand.
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata:
  name: headway
  labels:
    app.kubernetes.io/name: headway
    app.kubernetes.io/component: server
spec:
"""


def wrapped(rules: str) -> str:
    """The rules, a YAML text with the key ``groups``, as the text of a PrometheusRule. Comments at its start go."""
    lines = rules.splitlines()
    start = lines.index("groups:")
    return _HEAD + "".join(f"  {line}\n" if line else "\n" for line in lines[start:])


if __name__ == "__main__":
    WRITTEN.write_text(wrapped(RULES.read_text(encoding="utf-8")), encoding="utf-8")
