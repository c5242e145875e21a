#include "backend-hip/runtime/hip_compile.h"

#include "backend-hip/runtime/hip_images.h"

#include <dlfcn.h>
#include <link.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const char main_source[] = "backend-hip/kernels/kernels.hip";
static const char *const compilers[] = {"libhiprtc.so.7", "libhiprtc.so.6", "libhiprtc.so.5",
                                        "libhiprtc.so"};
enum { MAX_HEADERS = 128, MAX_NAMES = 16 };
enum { NOT_STARTED = 127 }; /* exit status */

/* hiprtc's functions, with the prototypes of its header. */
struct rtc {
    int (*create)(void **program, const char *source, const char *name, int n, const char **headers,
                  const char **names);
    int (*compile)(void *program, int n, const char **options);
    int (*code_size)(void *program, size_t *bytes);
    int (*code)(void *program, char *out);
    int (*log_size)(void *program, size_t *bytes);
    int (*log)(void *program, char *out);
};

static int find_symbols(struct rtc *r, void *library)
{
    static const struct {
        size_t slot;
        const char *name;
    } symbols[] = {{offsetof(struct rtc, create), "hiprtcCreateProgram"},
                   {offsetof(struct rtc, compile), "hiprtcCompileProgram"},
                   {offsetof(struct rtc, code_size), "hiprtcGetCodeSize"},
                   {offsetof(struct rtc, code), "hiprtcGetCode"},
                   {offsetof(struct rtc, log_size), "hiprtcGetProgramLogSize"},
                   {offsetof(struct rtc, log), "hiprtcGetProgramLog"}};
    for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++) {
        void *p = library ? dlsym(library, symbols[i].name) : NULL;
        if (!p) return 0;
        memcpy((char *)r + symbols[i].slot, &p, sizeof p);
    }
    return 1;
}

/* A compiler in the folder that a runtime library was loaded from, as in DTK's and other trees that
 * the loader does not search. */
static int find_beside(struct rtc *r, void *runtime)
{
    struct link_map *map = NULL;
    char path[4096];
    if (!runtime || dlinfo(runtime, RTLD_DI_LINKMAP, &map) || !map || !strchr(map->l_name, '/'))
        return 0;
    int folder = (int)(strrchr(map->l_name, '/') - map->l_name);
    for (size_t i = 0; i < sizeof compilers / sizeof *compilers; i++) {
        snprintf(path, sizeof path, "%.*s/%s", folder, map->l_name, compilers[i]);
        if (find_symbols(r, dlopen(path, RTLD_NOW | RTLD_LOCAL))) return 1;
    }
    return 0;
}

/* The runtime library itself (older ones contain the compiler), its folder, then the known names.
 */
static int find_compiler(struct rtc *r, const char *runtime)
{
    void *library = dlopen(runtime, RTLD_NOW | RTLD_LOCAL);
    if (find_symbols(r, library) || find_beside(r, library)) return 1;
    for (size_t i = 0; i < sizeof compilers / sizeof *compilers; i++)
        if (find_symbols(r, dlopen(compilers[i], RTLD_NOW | RTLD_LOCAL))) return 1;
    return 0;
}

/* The first error line of a log; clang prints the list of includes before it. */
static const char *what_failed(const char *log)
{
    const char *p = strstr(log, "error: ");
    while (p && p > log && p[-1] != '\n') p--;
    return p ? p : log;
}

/* Writes the code object or the error text to the file; 0 or -1. Runs in the fresh process. */
static int compile(const char *sources, const char *runtime, const char *arch, int file)
{
    struct rtc r;
    char offload[96];
    const char *source = NULL, *text[MAX_HEADERS], *name[MAX_HEADERS];
    void *program = NULL;
    size_t n = 0;
    int n_headers = 0;
    for (const char *p = sources; *p;) {
        const char *body = p + strlen(p) + 1;
        CHECK(n_headers < MAX_HEADERS);
        if (!strcmp(p, main_source)) source = body;
        else name[n_headers] = p, text[n_headers++] = body;
        p = body + strlen(body) + 1;
    }
    snprintf(offload, sizeof offload, "--offload-arch=%s", arch);
    /* the last one for a chip that lacks dot products, where the compiler refuses them */
    const char *options[] = {offload, "-O3", "-ffp-contract=off", "-fno-strict-aliasing",
                             "-DNO_DOT2"};
    const int n_options = sizeof options / sizeof *options;
    if (!find_compiler(&r, runtime)) {
        dprintf(file, "neither %s nor libhiprtc has hiprtc's functions", runtime);
        return -1;
    }
    int code = r.create(&program, source, main_source, n_headers, text, name);
    if (!code) code = r.compile(program, n_options - 1, options);
    void *plain = NULL;
    if (code && program && !r.create(&plain, source, main_source, n_headers, text, name) &&
        !r.compile(plain, n_options, options)) {
        program = plain;
        code = 0;
    }
    if (code) {
        char *log = !r.log_size(program, &n) && n ? calloc(1, n + 1) : NULL;
        if (!log || r.log(program, log)) dprintf(file, "error %d without a log", code);
        else
            dprintf(file, "error %d: %.*s", code, (int)strcspn(what_failed(log), "\n"),
                    what_failed(log));
        return -1;
    }
    char *object = !r.code_size(program, &n) && n ? malloc(n) : NULL;
    if (!object || r.code(program, object)) {
        dprintf(file, "no code object");
        return -1;
    }
    for (size_t at = 0; at < n;) {
        ssize_t put = write(file, object + at, n - at);
        if (put <= 0) return -1;
        at += (size_t)put;
    }
    return 0;
}

/* The arguments of the fresh process. Its standard output is the file; what a compiler prints there
 * goes to standard error. */
enum { ARG_MARK = 1, ARG_RUNTIME, ARG_ARCH, N_ARGS };
static const char mark[] = "--compile-gpu-kernels-of-this-program";
/* What the compiler runs in: this program, once it calls hip_compile_asked(), or another; NULL:
 * nothing. */
static const char *program;

void hip_compile_by(const char *path) { program = path; }

int hip_compile_asked(int argc, char **argv, int *status)
{
    struct err e;
    program = "/proc/self/exe";
    if (argc != N_ARGS || strcmp(argv[ARG_MARK], mark)) return 0;
    int file = dup(STDOUT_FILENO);
    dup2(STDERR_FILENO, STDOUT_FILENO);
    char *sources = hip_image_unpack(&hip_kernel_sources, &e);
    *status = 1;
    if (!sources) dprintf(file, "%s", e.msg);
    else if (!compile(sources, argv[ARG_RUNTIME], argv[ARG_ARCH], file)) *status = 0;
    free(sources);
    return 1;
}

/* Waits for the child and returns its status; -1: it was killed after the limit. */
static int wait_child(pid_t child, int seconds)
{
    int status;
    for (long ms = 0; ms < 1000l * seconds; ms += 10) {
        pid_t got = waitpid(child, &status, WNOHANG);
        if (got == child) return status;
        nanosleep(&(struct timespec){0, 10000000}, NULL);
    }
    kill(child, SIGKILL);
    waitpid(child, &status, 0);
    return -1;
}

int hip_compile(const char *runtime, const char *arch, int seconds, void **object, struct err *e)
{
    if (!hip_kernel_sources.data)
        return err_set(e, "this build contains no source of the kernels");
    if (!program) return err_set(e, "this program compiles none");
    if (!*arch) return err_set(e, "the runtime does not tell the device's architecture");
    int file = memfd_create("opt4gptq kernels", MFD_CLOEXEC);
    if (file < 0) return err_sys(e, "a file for compiled kernels");
    char *arguments[] = {"opt4gptq", (char *)mark, (char *)runtime, (char *)arch, NULL};
    pid_t child = fork();
    if (child == 0) { /* other threads may hold any lock: system calls only */
        if (dup2(file, STDOUT_FILENO) >= 0) execv(program, arguments);
        _exit(NOT_STARTED);
    }
    int status = child < 0 ? -1 : wait_child(child, seconds), rc = -1;
    off_t n = lseek(file, 0, SEEK_END);
    char *bytes = n >= 0 ? malloc((size_t)n + 1) : NULL;
    if (child < 0) err_sys(e, "fork");
    else if (status == -1)
        err_set(e, "the compiler hangs: killed after %d s (--gpu-timeout)", seconds);
    else if (WIFSIGNALED(status))
        err_set(e, "the compiler crashed: %s", strsignal(WTERMSIG(status)));
    else if (!bytes || pread(file, bytes, (size_t)n, 0) != n) err_memory(e);
    else if (WEXITSTATUS(status) == NOT_STARTED)
        err_set(e, "%s, which compiles them, does not start", program);
    else if (WEXITSTATUS(status)) err_set(e, "%.*s", (int)n, bytes);
    else rc = 0;
    close(file);
    if (rc) {
        free(bytes);
        return -1;
    }
    *object = bytes;
    return 0;
}
