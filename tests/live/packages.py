#!/usr/bin/env python3
"""The Debian packages of a build: lintian finds nothing but what is listed, and in a fresh Debian an ordinary user runs what the README
tells; removed again, they leave nothing. The plugin is built by one command from a compiler and Slurm's headers alone, and the recipe for Spack is sound.
usage: packages.py BUILD_DIR"""
import glob
import os
import re
import runpy
import shutil
import subprocess
import sys
import tempfile
import types

from cluster_support import SOURCE, check, run_tests

BUILD = os.path.abspath(sys.argv.pop(1))


def has(need):
    return runpy.run_path(os.path.join(SOURCE, "tests", "support", "skips"), run_name="skips")["NEEDS"][need]()


def call(*command, **options):
    done = subprocess.run(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=900, check=False, **options)
    check(done.returncode == 0, f"{' '.join(command)}\nstatus {done.returncode}\n{done.stdout[-4000:]}")
    return done.stdout


class Root:
    """A Debian of its own in a directory."""

    def __init__(self, top, packages):
        self.top = os.path.join(top, "root")
        with open("/etc/os-release", encoding="utf-8") as f:
            suite = re.search(r"VERSION_CODENAME=(\w+)", f.read())[1]
        call("mmdebstrap", "--quiet", "--variant=apt", "--dpkgopt=force-unsafe-io", "--aptopt=Acquire::Languages \"none\"", f"--include={','.join(packages)}",
             "--skip=cleanup/apt,cleanup/tmp", "--essential-hook=echo man-db man-db/auto-update boolean false | chroot \"$1\" debconf-set-selections",
             suite, self.top)
        with open(f"{self.top}/etc/passwd", "a", encoding="utf-8") as f:
            f.write("alice:x:1234:1234::/home/alice:/bin/bash\n")
        with open(f"{self.top}/etc/shadow", "a", encoding="utf-8") as f:
            f.write("alice:*:19000:0:99999:7:::\n")
        # Who is asked says yes.
        for path, text in {"etc/sudoers.d/alice": "alice ALL=(ALL) NOPASSWD: ALL\n", "etc/apt/apt.conf.d/90yes": 'APT::Get::Assume-Yes "1";\n'}.items():
            with open(f"{self.top}/{path}", "w", encoding="utf-8") as f:
                f.write(text)
        shutil.copy("/etc/resolv.conf", f"{self.top}/etc/resolv.conf")
        os.mkdir(f"{self.top}/home/alice")
        os.chown(f"{self.top}/home/alice", 1234, 1234)

    def shell(self, text, user="alice"):
        """What bash prints there."""
        return call("unshare", "--mount", "--pid", "--fork", "sh", "-ec", 'mount -t proc proc "$0/proc"; mount --bind /dev "$0/dev"; exec chroot "$@"',
                    self.top, *(["--userspec=1234:1234"] if user == "alice" else []), self.top, "/usr/bin/env", "-i", "PATH=/usr/bin:/bin:/usr/sbin:/sbin",
                    f"HOME={'/home/alice' if user == 'alice' else '/root'}", "LANG=C.UTF-8", "bash", "-ec", f"cd\n{text}")

    def files(self):
        """All that an installation could have left."""
        passed = ("proc", "dev", "var/lib/dpkg", "var/lib/apt", "var/cache", "var/log", "home")
        return {os.path.relpath(os.path.join(d, name), self.top) for d, dirs, files in os.walk(self.top) for name in dirs + files
                if not os.path.relpath(os.path.join(d, name), self.top).startswith(passed)}


def packages_work_in_a_fresh_debian_and_leave_nothing():
    call(os.path.join(SOURCE, "contrib", "build-deb"), "--build", BUILD)
    debs = {os.path.basename(deb).split("_")[0]: deb for deb in glob.glob(f"{BUILD}/packages/*.deb")}
    check({"harrow", "harrow-slurm-plugin"} <= set(debs), debs)
    with open(os.path.join(SOURCE, "README.md"), encoding="utf-8") as f:
        install, remove = re.search(r"^    \./contrib/build-deb && (sudo apt-get install \S+) .*?(apt-get purge .*) removes it$", f.read(), re.MULTILINE).groups()
    memory = "/dev/shm"  # where it is large enough: dpkg waits for a disk again and again
    roomy = os.path.isdir(memory) and shutil.disk_usage(memory).free > 2 << 30
    with tempfile.TemporaryDirectory(prefix="harrow-packages-", dir=memory if roomy else None) as top:
        os.chmod(top, 0o755)
        root = Root(top, ["sudo", "man-db", "bash-completion"])
        before = root.files()
        home = f"{root.top}/home/alice/harrow"  # as if it had been built there
        os.makedirs(f"{home}/build-deb/packages")
        for name in ("harrow", "harrow-slurm-plugin"):
            shutil.copy(debs[name], f"{home}/build-deb/packages")
        root.shell(f"cd harrow; {install}; {install.replace('/harrow_', '/harrow-slurm-plugin_')}")
        check(root.shell("harrow --version").startswith("harrow "), "another version")
        check("RETRIES" in root.shell("man harrow-run | cat").upper(), "no manual")
        check("status" in root.shell(". /usr/share/bash-completion/bash_completion; _completion_loader harrow || test $? = 124\n"
                                     "COMP_LINE='harrow st' COMP_POINT=9 COMP_WORDS=(harrow st) COMP_CWORD=1; _harrow harrow st harrow; echo ${COMPREPLY[@]}"),
              "bash completes nothing")
        root.shell("grep -q '^#compdef harrow' /usr/share/zsh/vendor-completions/_harrow")  # where Debian's zsh looks
        said = root.shell("printf 'echo hello %s\\n' $(seq 20) > tasks.txt; harrow run tasks.txt; harrow logs 7; harrow doctor --config | grep ^order")
        check("hello 7" in said and "order" in said, said)
        said = root.shell("printf '#HARROW ranks=1\\necho rank $PMIX_RANK of $PMIX_NAMESPACE\\n' > ranks.txt; harrow run ranks.txt; harrow logs 1")
        check("rank 0 of harrow-" in said, said)
        check("not there" not in root.shell("ls /usr/lib/harrow/spank_harrow.so; man -w harrow-plugin-check; cat /etc/harrow/harrow.conf"), "")
        root.shell(f"sudo {remove}-slurm-plugin; sudo {remove}")
        left = root.files() - before
        check(not left, f"left are {sorted(left)}")


def the_plugin_is_built_by_one_command():
    with tempfile.TemporaryDirectory(prefix="harrow-packages-") as top:
        # A place of a site's own, with no more than is needed.
        os.makedirs(f"{top}/slurm/include/slurm")
        for name in ("spank.h", "slurm.h", "slurm_errno.h", "slurm_version.h"):
            shutil.copy(f"/usr/include/slurm/{name}", f"{top}/slurm/include/slurm")
        call(os.path.join(SOURCE, "contrib", "build-plugin"), "--slurm", f"{top}/slurm", "--prefix", f"{top}/installed", cwd=top)
        there = sorted(os.path.relpath(os.path.join(d, f), f"{top}/installed") for d, _, files in os.walk(f"{top}/installed") for f in files)
        check({"lib/harrow/spank_harrow.so", "sbin/harrow-plugin-check", "share/harrow/plugstack.conf.d/harrow.conf"} <= set(there), there)
        with open(f"{top}/installed/share/harrow/plugstack.conf.d/harrow.conf", encoding="utf-8") as f:
            check(f"\noptional {top}/installed/lib/harrow/spank_harrow.so" in f.read(), "it names another place")
        check("stdc++" not in call("ldd", f"{top}/installed/lib/harrow/spank_harrow.so"), "it wants the C++ runtime")
        check(sorted(os.listdir(top)) == ["installed", "slurm"], f"it left something: {os.listdir(top)}")


def no_warning_ends_an_installation():
    """Other compilers and flags, as Debian's hardening, warn of more."""
    with open(os.path.join(SOURCE, "contrib", "build-deb"), encoding="utf-8") as f:
        check("-DHARROW_WERROR=OFF" in f.read(), "contrib/build-deb makes errors of warnings")
    # What glibc warns of under Debian's hardening; gcc takes no (void) for an answer.
    names = set()
    for header in ("unistd.h", "stdlib.h", "stdio.h", "sys/stat.h", "sys/uio.h"):
        for path in glob.glob(f"/usr/include/{header}") + glob.glob(f"/usr/include/*/{header}"):
            with open(path, encoding="utf-8", errors="replace") as f:
                declarations = re.sub(r"/\*.*?\*/", "", f.read(), flags=re.DOTALL).split(";")
            names.update(re.search(r"(\w+) \(", d)[1] for d in declarations if re.search(r"__wur\b", d) and re.search(r"\w+ \(", d))
    check({"write", "ftruncate"} <= names, sorted(names))
    thrown = re.compile(r"\(void\)\s*(?:::)?(" + "|".join(sorted(names | {"fchmodat"})) + r")\(")
    found = [f"{path}: {match[0]}" for folder in ("sched", "launcher", "plugin")
             for path in glob.glob(os.path.join(SOURCE, folder, "**", "*.[ch]*"), recursive=True)
             for match in thrown.finditer(open(path, encoding="utf-8").read())]
    check(not found, found)


def spack_reads_the_recipe():
    """By a stand-in for Spack's words: the recipe is Python, has a dependency for every package that CMake looks for, and sets options that
    there are."""
    told = {"depends_on": [], "variant": [], "version": [], "license": [], "generator": [], "conflicts": []}
    spack = types.ModuleType("spack")
    words = types.ModuleType("spack.package")
    for word, calls in told.items():
        setattr(words, word, lambda *args, _calls=calls, **options: _calls.append((args, options)))

    class CMakePackage:
        def define(self, name, value):
            return f"-D{name}={value}"

        def define_from_variant(self, name, variant):
            check(variant in [args[0] for args, _ in told["variant"]], f"there is no variant {variant}")
            return f"-D{name}=ON"
    words.CMakePackage = CMakePackage
    words.__all__ = [*told, "CMakePackage"]
    sys.modules.update({"spack": spack, "spack.package": words})
    scope = runpy.run_path(os.path.join(SOURCE, "contrib", "spack", "packages", "harrow", "package.py"))
    options = re.findall(r"-D(\w+)=", " ".join(scope["Harrow"]().cmake_args()))
    with open(os.path.join(SOURCE, "CMakeLists.txt"), encoding="utf-8") as f:
        known = re.findall(r"^option\((\w+)", f.read(), re.M)
    check(options and set(options) <= set(known), options)
    check("-DHARROW_WERROR=False" in scope["Harrow"]().cmake_args(), "Spack's compilers warn of what they like")
    depends = {re.split("[@ ]", args[0])[0] for args, _ in told["depends_on"]}
    with open(os.path.join(SOURCE, "contrib", "packages"), encoding="utf-8") as f:
        debian = re.findall(r"^build lib(\S+)-dev$", f.read(), re.M)
    names = {"sqlite3": "sqlite", "ssl": "openssl"}
    check(len(debian) > 8 and {names.get(name, name) for name in debian} <= depends, f"{debian} against {depends}")


TESTS = [no_warning_ends_an_installation, spack_reads_the_recipe]
if os.path.exists("/usr/include/slurm/spank.h"):
    TESTS.append(the_plugin_is_built_by_one_command)
if not has("mounting") or not has("a package mirror"):
    print("packages_work_in_a_fresh_debian_and_leave_nothing: skipped: no fresh Debian can be made (needs mounting, a package mirror)", flush=True)
else:
    TESTS.append(packages_work_in_a_fresh_debian_and_leave_nothing)
sys.exit(run_tests([(f.__name__, f) for f in TESTS]))
