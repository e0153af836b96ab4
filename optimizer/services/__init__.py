"""What people do to operators and runs, with its rules. Views, API and commands call these."""
