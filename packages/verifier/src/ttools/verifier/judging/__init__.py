"""The process that compares: runs the plan, classifies failures and reduces their inputs."""
