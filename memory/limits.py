"""How large a bank file may be. Plain constants: the settings, the web and the command line share them."""

# 60 directions with 1,500 strategies and 3,600 edges take about 4 MB; a row of evidence takes half a kilobyte.
MAX_BANK_BYTES = 64 * 1024 * 1024
MAX_DEPTH = 12  # levels of nesting
