#!/bin/bash
#SBATCH --job-name=ensemble --output=ensemble.log --open-mode=append
#SBATCH --nodes=2 --exclusive --no-kill
#SBATCH --time=00:01:00

# Begins the run, or goes on with it: submit the same script again until all is done.
harrow run --resume --run-dir forecasts flow.toml
