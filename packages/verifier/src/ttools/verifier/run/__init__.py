"""One run of a verification: runs the plan, classifies failures and reduces their inputs."""
