"""How a value goes into a script: as one literal word; and which variables none may set."""

import shlex

# Bash runs what BASH_ENV names, and computes what PS4 holds; the others steer the scripts.
# To some it gives a meaning of its own: a text that is assigned to RANDOM, SRANDOM, HISTCMD or
# OPTIND is computed as a number, and with it any command in an array's index.
SHELL_VARIABLES = frozenset(
    (
        *("ENV", "IFS", "PATH", "PS0", "PS1", "PS2", "PS3", "PS4", "PROMPT_COMMAND", "SHELLOPTS"),
        *("GLOBIGNORE", "CDPATH", "FUNCNEST", "UID", "EUID", "PPID", "POSIXLY_CORRECT"),
        *("RANDOM", "SRANDOM", "SECONDS", "LINENO", "EPOCHSECONDS", "EPOCHREALTIME", "SHLVL"),
        *("HISTCMD", "HISTFILE", "HISTSIZE", "HISTFILESIZE", "HISTCONTROL", "HISTIGNORE"),
        *("OPTIND", "OPTERR", "OPTARG", "REPLY", "MAPFILE", "COPROC", "DIRSTACK", "FUNCNAME"),
        *("GROUPS", "PIPESTATUS", "PWD", "OLDPWD", "TMOUT", "IGNOREEOF", "CHILD_MAX", "COLUMNS"),
        *("LINES", "EXECIGNORE", "FIGNORE", "INPUTRC", "MAILCHECK", "MAILPATH", "TIMEFORMAT"),
        *("INSIDE_EMACS", "HOSTFILE", "_"),
    )
)
SHELL_PREFIXES = (
    *("BASH", "COMP_", "READLINE_", "LD_", "NBKIT_"),
    *("SLURM", "SBATCH", "SRUN", "MASTER_", "RANK", "WORLD_"),
)


def sh(value: object) -> str:
    """One word of bash that stands for exactly this text; a plain word stays as it is."""
    return shlex.quote(str(value))


def comment(value: object) -> str:
    """Text inside a comment: everything that could end its line is written as an escape."""
    text = str(value)
    return "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in text)
