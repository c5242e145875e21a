/* rtc.c: hiprtc's functions, implemented by running clang-19 (by ccache where that is there), for
 * tests of the host runtime's fall-back on devices that no embedded code object fits; with -O1, in
 * two thirds of the time. Environment:
 * GFX906_ONLY_COMPILED=1: the device accepts only code objects from here (hipModuleLoadData);
 * GFX906_RTC=fail|crash|hang: the compiler fails, crashes, or hangs; locked: it takes a lock that
 * the runtime holds once it is initialized; no-dot: it compiles as for a chip without dot products;
 * real: AMD's compiler of an installed libamdhip64.so.5 (which needs no GPU). Several: with commas.
 */
#include "gfx906.h"
#include "gpu.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define API GFX906_API
enum { COMPILE_ERROR = 6, MAX_OPTIONS = 1000 };

struct program {
    char dir[64], log[4096];
    char *code;
    size_t bytes;
    void *library, *real; /* AMD's, NULL: clang-19 */
};

static pthread_mutex_t rtc_lock = PTHREAD_MUTEX_INITIALIZER;

static int mode_is(const char *what)
{
    const char *modes = getenv("GFX906_RTC");
    return modes && strstr(modes, what) != NULL;
}

void rtc_initialized(void)
{
    if (mode_is("locked")) pthread_mutex_lock(&rtc_lock);
}

static void *real_function(const struct program *p, const char *name)
{
    void *f = p->library ? dlsym(p->library, name) : NULL;
    if (!f) {
        fprintf(stderr, "libamdhip64.so.5: no %s\n", name);
        abort();
    }
    return f;
}

/* Calls AMD's function of that name with its program first. */
#define REAL(p, name, types, ...) ((int(*) types)real_function(p, name))((p)->real, __VA_ARGS__)

/* Runs AMD's compiler on a copy of the program and keeps its log and code. */
static int compile_real(struct program *p, int n, const char **options)
{
    size_t bytes;
    int code = REAL(p, "hiprtcCompileProgram", (void *, int, const char **), n, options);
    if (code) {
        char *log = NULL;
        if (!REAL(p, "hiprtcGetProgramLogSize", (void *, size_t *), &bytes))
            log = calloc(1, bytes + 1);
        if (log && !REAL(p, "hiprtcGetProgramLog", (void *, char *), log))
            snprintf(p->log, sizeof p->log, "%s", log);
        free(log);
        return code;
    }
    code = REAL(p, "hiprtcGetCodeSize", (void *, size_t *), &p->bytes);
    if (!code && !(p->code = malloc(p->bytes))) return 1;
    if (!code) code = REAL(p, "hiprtcGetCode", (void *, char *), p->code);
    if (!code && p->bytes > COMPILED_MARK_AT) p->code[COMPILED_MARK_AT] = COMPILED_MARK;
    return code;
}

/* Writes a text to NAME in the program's folder; folders are made. */
static int put(struct program *p, const char *name, const char *text)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", p->dir, name);
    for (char *slash = path + strlen(p->dir) + 1; (slash = strchr(slash, '/')); slash++) {
        *slash = 0;
        mkdir(path, 0700);
        *slash = '/';
    }
    FILE *f = fopen(path, "w");
    if (!f) return -1;
    fputs(text, f);
    return fclose(f);
}

API int hiprtcCreateProgram(void **program, const char *source, const char *name, int n,
                            const char **headers, const char **names);
API int hiprtcCreateProgram(void **program, const char *source, const char *name, int n,
                            const char **headers, const char **names)
{
    struct program *p = *program = calloc(1, sizeof *p);
    pthread_mutex_lock(&rtc_lock);
    pthread_mutex_unlock(&rtc_lock);
    if (mode_is("crash")) abort();
    while (mode_is("hang")) sleep(1);
    if (!p) return 1;
    if (mode_is("real")) {
        p->library = dlopen("libamdhip64.so.5", RTLD_NOW | RTLD_LOCAL);
        int (*create)(void **, const char *, const char *, int, const char **, const char **);
        create = (int (*)(void **, const char *, const char *, int, const char **,
                          const char **))real_function(p, "hiprtcCreateProgram");
        return create(&p->real, source, name, n, headers, names);
    }
    strcpy(p->dir, "/tmp/gfx906-rtc-XXXXXX");
    if (!mkdtemp(p->dir) || put(p, "main.hip", source)) return 1;
    for (int i = 0; i < n; i++)
        if (put(p, names[i], headers[i])) return 1;
    return 0;
}

static int read_code(struct program *p, const char *path)
{
    struct stat st;
    FILE *f = fopen(path, "rb");
    if (!f || fstat(fileno(f), &st)) return -1;
    p->bytes = (size_t)st.st_size;
    p->code = malloc(p->bytes);
    int bad = !p->code || fread(p->code, 1, p->bytes, f) != p->bytes || p->bytes < 16;
    fclose(f);
    if (!bad) p->code[COMPILED_MARK_AT] = COMPILED_MARK;
    return bad ? -1 : 0;
}

API int hiprtcCompileProgram(void *program, int n, const char **options);
API int hiprtcCompileProgram(void *program, int n, const char **options)
{
    struct program *p = program;
    char command[2048], all[MAX_OPTIONS] = "", path[128];
    if (p->real) return compile_real(p, n, options);
    for (int i = 0; i < n; i++)
        snprintf(all + strlen(all), sizeof all - strlen(all), " '%s'", options[i]);
    snprintf(command, sizeof command,
             "cd %s && PATH=/usr/lib/llvm-19/bin:$PATH $(command -v ccache) clang-19 -x hip "
             "--cuda-device-only "
             "--no-gpu-bundle-output -mcode-object-version=4 "
             "-nogpuinc -nogpulib -I.%s -O1%s -o out.co main.hip >log 2>&1",
             p->dir, all,
             mode_is("no-dot")
                 ? " -Xclang -target-feature -Xclang -dot10-insts -Xclang -target-feature -Xclang "
                   "-dot1-insts"
                 : "");
    snprintf(path, sizeof path, "%s/out.co", p->dir);
    int bad = mode_is("fail") || system(command) || read_code(p, path);
    if (bad) snprintf(p->log, sizeof p->log, "main.hip: does not compile\n");
    snprintf(command, sizeof command, "rm -rf %s", p->dir);
    if (system(command)) snprintf(p->log, sizeof p->log, "%s stays\n", p->dir);
    return bad ? COMPILE_ERROR : 0;
}

API int hiprtcGetCodeSize(void *program, size_t *bytes);
API int hiprtcGetCodeSize(void *program, size_t *bytes)
{
    return *bytes = ((struct program *)program)->bytes, 0;
}
API int hiprtcGetCode(void *program, char *out);
API int hiprtcGetCode(void *program, char *out)
{
    const struct program *p = program;
    memcpy(out, p->code, p->bytes);
    return 0;
}
API int hiprtcGetProgramLogSize(void *program, size_t *bytes);
API int hiprtcGetProgramLogSize(void *program, size_t *bytes)
{
    return *bytes = sizeof((struct program *)program)->log, 0;
}
API int hiprtcGetProgramLog(void *program, char *out);
API int hiprtcGetProgramLog(void *program, char *out)
{
    const struct program *p = program;
    memcpy(out, p->log, sizeof p->log);
    return 0;
}
