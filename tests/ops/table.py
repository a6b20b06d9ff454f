"""Test rows: which OpInfos reach an operator, where they do not have its name, and what accuracy can be asked for.

{operator: ((names of OpInfos), {keyword of opinfo.Row: value})}
"""

OPINFOS = {}
