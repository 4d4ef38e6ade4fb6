#!/usr/bin/env python3
"""`cmake --install`: everything lies below the prefix, and its module file gives the programs and pages of where it lies, in
Environment Modules and, where it is there, in Lmod; `uninstall` takes away what was installed.
usage: install.py BUILD_DIR"""
import os
import shutil
import subprocess
import sys
import tempfile

from cluster_support import check, run_tests, skip

BUILD = os.path.abspath(sys.argv.pop(1))
LMOD = next((p for p in ("/usr/share/lmod/lmod/libexec/lmod", os.environ.get("LMOD_CMD", "")) if os.path.exists(p)), None)


def install(prefix, destdir=""):
    subprocess.run(["cmake", "--install", BUILD, "--prefix", prefix], check=True, stdout=subprocess.DEVNULL, timeout=300,
                   env={**os.environ, "DESTDIR": destdir})
    return os.path.join(destdir + prefix, "share", "modulefiles")


def shell(text, **variables):
    """What bash prints, started with nothing but these variables."""
    done = subprocess.run(["bash", "--norc", "-c", f"set -eu\n{text}"], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          env={"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", "LANG": "C", **variables}, timeout=120)
    check(done.returncode == 0, f"{text}\nstatus {done.returncode}\n{done.stdout}")
    return done.stdout.strip()


def the_module_gives_what_is_installed():
    for name in ("opt/harrow", "a place/with blanks"):
        with tempfile.TemporaryDirectory(prefix="harrow-install-") as top:
            top = os.path.realpath(top)
            prefix = os.path.join(top, name)
            modules = install(prefix)
            for module in MODULES if " " not in name else MODULES[:1]:  # Lmod itself reads no file below a directory with a blank
                load = f'eval "$({module} load harrow)"'
                where = {"MODULEPATH": modules}
                check(shell(f"{load}\ncommand -v harrow; harrow --version", **where).split("\n")[0] == f"{prefix}/bin/harrow", module)
                check("no such command" not in shell(f"{load}; harrow doctor --help", **where), "it does not start")
                # What was not set stays so, else man would find Harrow's pages only; what was set is kept.
                check(shell(f'{load}; echo "${{MANPATH-none}} ${{FPATH-none}}"', **where) == "none none", module)
                check(shell(f'{load}; echo "$MANPATH"', MANPATH="/usr/share/man", **where) == f"{prefix}/share/man:/usr/share/man", module)
                if shutil.which("man"):
                    page = shell(f"{load}; man -w harrow-run; man -w ls", **where).split("\n")
                    check(page[0] == f"{prefix}/share/man/man1/harrow-run.1" and len(page) == 2, page)
                before = shell("env | sort", **where)
                after = shell(f'{load}; eval "$({module} unload harrow)"; env | sort', **where)
                kept = [line for line in after.split("\n") if not line.startswith(("LOADED", "_LM", "__MODULES", "__LMOD", "_ModuleTable", "MODULES", "LMOD"))]
                check(kept == before.split("\n"), (module, before, after))
                check("many tasks" in shell(f"{module} whatis harrow 2>&1; true", **where), module)


def ranks_are_served_by_what_is_installed():
    if not os.path.exists(f"{BUILD}/bin/harrow-pmix"):
        print("ranks_are_served_by_what_is_installed: skipped: harrow-pmix was not built (needs libpmix)", flush=True)
        return
    with tempfile.TemporaryDirectory(prefix="harrow-install-") as top:
        install(f"{top}/harrow")
        with open(f"{top}/tasks.txt", "w", encoding="utf-8") as f:
            f.write("#HARROW ranks=1\necho \"rank $PMIX_RANK of $PMIX_NAMESPACE\"\n")
        said = shell(f"cd {top}; harrow/bin/harrow run tasks.txt && harrow/bin/harrow logs 1", TMPDIR="/tmp")
        check("rank 0 of harrow-" in said, said)


def an_image_names_the_place_it_is_made_for():
    with tempfile.TemporaryDirectory(prefix="harrow-install-") as top:
        modules = install("/opt/made-for", os.path.join(top, "image"))
        check(os.listdir(os.path.join(top, "image")) == ["opt"], "something lies outside of the prefix")
        for module in MODULES:
            path = shell(f'eval "$({module} load harrow)"; echo "$PATH"', MODULEPATH=modules)
            check(path.split(":")[0] == "/opt/made-for/bin", f"{module}: {path}")


def what_was_installed_is_removed_again():
    with tempfile.TemporaryDirectory(prefix="harrow-install-") as top:
        for prefix, destdir in ((os.path.join(top, "own"), ""), ("/usr", os.path.join(top, "image"))):
            install(prefix, destdir)
            keep = os.path.join(destdir + prefix, "share", "man", "man1", "other.1")
            with open(keep, "w", encoding="utf-8"):
                pass
            check(os.path.exists(f"{destdir}{prefix}/bin/harrow"), "nothing is installed")
            subprocess.run(["cmake", "--build", BUILD, "--target", "uninstall"], check=True, stdout=subprocess.DEVNULL, timeout=300,
                           env={**os.environ, "DESTDIR": destdir})
            left = [os.path.join(d, f) for d, _, files in os.walk(top) for f in files]
            check(left == [keep], f"left are {left}")
            check(os.path.exists(f"{destdir}{prefix}/bin") == (prefix == "/usr"), "directories: a system's own stay, others that are empty go")
            os.remove(keep)


MODULES = ([f"{modulecmd} bash" for modulecmd in [shutil.which("modulecmd")] if modulecmd]) + ([f"{LMOD} bash"] if LMOD else [])
if not MODULES:
    skip("no modules", "environment modules")
sys.exit(run_tests([(f.__name__, f) for f in (the_module_gives_what_is_installed, an_image_names_the_place_it_is_made_for,
                                              ranks_are_served_by_what_is_installed, what_was_installed_is_removed_again)]))
