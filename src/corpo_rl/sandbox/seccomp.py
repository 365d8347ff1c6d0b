"""The system-call filter of a candidate, made by libseccomp.

A deny list. What keeps a candidate in are its namespaces, its limits and its want of any capability; the filter takes
away what these leave open (memory outside its address space: shared, in socket buffers, in pages of 2 MB that a pipe
holds; a second process) and most of what kernel faults have been exploited through.
"""

import ctypes
import ctypes.util
import errno
import os
import tempfile

from corpo_rl.errors import CorpoError

_DENIED = """
socket connect bind listen accept accept4 fork vfork execve execveat unshare setns mount umount2 pivot_root chroot
move_mount open_tree fsopen fsconfig fsmount fspick mount_setattr ptrace process_vm_readv process_vm_writev
process_madvise process_mrelease kcmp pidfd_open pidfd_getfd pidfd_send_signal shmget shmat shmctl shmdt msgget
msgsnd msgrcv msgctl semget semop semtimedop semctl mq_open mq_unlink memfd_create memfd_secret io_uring_setup
io_uring_enter io_uring_register io_setup bpf perf_event_open userfaultfd keyctl add_key request_key
name_to_handle_at open_by_handle_at fanotify_init inotify_init inotify_init1 quotactl init_module finit_module
delete_module kexec_load kexec_file_load reboot swapon swapoff acct syslog lookup_dcookie settimeofday clock_settime
clock_adjtime adjtimex sethostname setdomainname iopl ioperm modify_ldt personality setuid setgid setreuid setregid
setresuid setresgid setfsuid setfsgid setgroups vhangup landlock_create_ruleset vmsplice setsockopt move_pages
migrate_pages quotactl_fd open_tree_attr flock sync syncfs fadvise64
""".split()  # noqa: SIM905  # as a list it takes a hundred lines

_CLONE_THREAD = 0x00010000
_NEW_NAMESPACES = (0x00020000, 0x02000000, 0x04000000, 0x08000000, 0x10000000, 0x20000000, 0x40000000)
"""CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET."""

_ALLOW = 0x7FFF0000
_ERRNO = 0x00050000
_NOT_EQUAL, _MASKED_EQUAL = 1, 7
_AF_UNIX, _SET_DUMPABLE = 1, 4
_SET_LEASE, _NOTIFY = 1024, 1026

_INSTALL = "install it (on Debian and Ubuntu: apt install libseccomp2)"


class _Comparison(ctypes.Structure):
    _fields_ = (
        ("argument", ctypes.c_uint),
        ("operator", ctypes.c_int),
        ("mask", ctypes.c_uint64),
        ("value", ctypes.c_uint64),
    )


def candidate_filter() -> bytes:
    """The filter as instructions of the kernel's packet filter, 8 bytes each, for this machine's architecture.

    Raises:
        CorpoError: libseccomp is not installed, or refuses.
    """
    try:
        library = ctypes.CDLL("libseccomp.so.2", use_errno=True)
    except OSError:
        raise CorpoError(f"the sandbox needs libseccomp, which was not found; {_INSTALL}") from None
    library.seccomp_init.restype = ctypes.c_void_p
    library.seccomp_init.argtypes = (ctypes.c_uint32,)
    library.seccomp_rule_add_array.argtypes = (
        ctypes.c_void_p,
        ctypes.c_uint32,
        ctypes.c_int,
        ctypes.c_uint,
        ctypes.POINTER(_Comparison),
    )
    library.seccomp_export_bpf.argtypes = (ctypes.c_void_p, ctypes.c_int)
    library.seccomp_release.argtypes = (ctypes.c_void_p,)
    context = library.seccomp_init(_ALLOW)
    if not context:
        raise CorpoError(f"the sandbox needs libseccomp, which does not start here; {_INSTALL}")
    try:
        for name in _DENIED:
            _deny(library, context, name, error=errno.EPERM)
        # its flags lie in memory, where no filter sees them; C libraries fall back to clone
        _deny(library, context, "clone3", error=errno.ENOSYS)
        _deny(library, context, "clone", _Comparison(0, _MASKED_EQUAL, _CLONE_THREAD, 0), error=errno.EPERM)
        # other families may load kernel modules; with this one asyncio wakes its loop
        _deny(library, context, "socketpair", _Comparison(0, _NOT_EQUAL, _AF_UNIX, 0), error=errno.EPERM)
        # dumpable again, a crash would start what the host has in core_pattern
        _deny(library, context, "prctl", _Comparison(0, _MASKED_EQUAL, 0xFFFFFFFF, _SET_DUMPABLE), error=errno.EPERM)
        # the system's files are others' as well: no leases, no watching (nor, above, locks)
        for command in (_SET_LEASE, _NOTIFY):
            _deny(library, context, "fcntl", _Comparison(1, _MASKED_EQUAL, 0xFFFFFFFF, command), error=errno.EPERM)
        for flag in _NEW_NAMESPACES:
            _deny(library, context, "clone", _Comparison(0, _MASKED_EQUAL, flag, flag), error=errno.EPERM)
        with tempfile.TemporaryFile() as file:
            _check(library.seccomp_export_bpf(context, file.fileno()), "export")
            file.seek(0)
            return file.read()
    finally:
        library.seccomp_release(context)


def _deny(library: ctypes.CDLL, context: int, name: str, *comparisons: _Comparison, error: int) -> None:
    number = library.seccomp_syscall_resolve_name(name.encode())
    if number < 0:
        return  # this architecture has no such call, or this libseccomp is older than the call
    array = (_Comparison * len(comparisons))(*comparisons)
    _check(library.seccomp_rule_add_array(context, _ERRNO | error, number, len(comparisons), array), name)


def _check(result: int, what: str) -> None:
    if result != 0:
        raise CorpoError(f"the sandbox's filter could not be made ({what}: {os.strerror(-result)})")
