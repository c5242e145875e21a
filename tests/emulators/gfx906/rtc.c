/* rtc.c: hiprtc's functions, implemented by running clang-19 (by ccache where that is there), for
 * tests of the host runtime's fall-back on devices that no embedded code object fits; with -O1, in
 * two thirds of the time. Environment:
 * GFX906_ONLY_COMPILED=1: the device accepts only code objects from here (hipModuleLoadData);
 * GFX906_RTC=fail|crash|hang: the compiler fails, crashes, or hangs; GFX906_RTC=locked: the
 * compiler takes a lock that the runtime holds once it is initialized; GFX906_RTC=real: AMD's
 * compiler of an installed libamdhip64.so.5 (which needs no GPU). GFX906_RTC_KEPT=FILE: what
 * clang-19 makes is left there for processes that compile the same. */
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
    uint64_t of; /* checksum of the sources and options */
    void *library, *real; /* AMD's, NULL: clang-19 */
};

static pthread_mutex_t rtc_lock = PTHREAD_MUTEX_INITIALIZER;

void rtc_initialized(void)
{
    const char *mode = getenv("GFX906_RTC");
    if (mode && !strcmp(mode, "locked")) pthread_mutex_lock(&rtc_lock);
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

/* FNV-1a */
static void add_to_checksum(struct program *p, const char *text)
{
    if (!p->of) p->of = 0xcbf29ce484222325u;
    do p->of = (p->of ^ (unsigned char)*text) * 0x100000001b3u;
    while (*text++);
}

/* Writes a text to NAME in the program's folder; folders are made. */
static int put(struct program *p, const char *name, const char *text)
{
    char path[512];
    add_to_checksum(p, name);
    add_to_checksum(p, text);
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
    const char *mode = getenv("GFX906_RTC");
    pthread_mutex_lock(&rtc_lock);
    pthread_mutex_unlock(&rtc_lock);
    if (mode && !strcmp(mode, "crash")) abort();
    while (mode && !strcmp(mode, "hang")) sleep(1);
    if (!p) return 1;
    if (mode && !strcmp(mode, "real")) {
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

/* The code in a file, behind `skip` bytes. */
static int read_code(struct program *p, const char *path, size_t skip)
{
    struct stat st;
    FILE *f = fopen(path, "rb");
    if (!f || fstat(fileno(f), &st) || fseek(f, (long)skip, SEEK_SET)) return -1;
    p->bytes = (size_t)st.st_size - skip;
    p->code = malloc(p->bytes);
    int bad = !p->code || fread(p->code, 1, p->bytes, f) != p->bytes || p->bytes < 16;
    fclose(f);
    if (!bad) p->code[COMPILED_MARK_AT] = COMPILED_MARK;
    return bad ? -1 : 0;
}

/* GFX906_RTC_KEPT: the checksum of what was compiled, the code. */
static int read_kept(struct program *p, const char *path)
{
    uint64_t of = 0;
    FILE *f = path ? fopen(path, "rb") : NULL;
    if (!f) return -1;
    int bad = fread(&of, sizeof of, 1, f) != 1 || of != p->of;
    fclose(f);
    return bad ? -1 : read_code(p, path, sizeof of);
}

static void keep(const struct program *p, const char *path)
{
    FILE *f = path ? fopen(path, "wb") : NULL;
    if (!f) return;
    fwrite(&p->of, sizeof p->of, 1, f);
    fwrite(p->code, 1, p->bytes, f);
    fclose(f);
}

API int hiprtcCompileProgram(void *program, int n, const char **options);
API int hiprtcCompileProgram(void *program, int n, const char **options)
{
    struct program *p = program;
    char command[2048], all[MAX_OPTIONS] = "", path[128];
    const char *mode = getenv("GFX906_RTC"), *kept = getenv("GFX906_RTC_KEPT");
    if (p->real) return compile_real(p, n, options);
    for (int i = 0; i < n; i++)
        snprintf(all + strlen(all), sizeof all - strlen(all), " '%s'", options[i]);
    snprintf(command, sizeof command,
             "cd %s && PATH=/usr/lib/llvm-19/bin:$PATH $(command -v ccache) clang-19 -x hip "
             "--cuda-device-only "
             "--no-gpu-bundle-output -mcode-object-version=4 "
             "-nogpuinc -nogpulib -I.%s -O1%s -o out.co main.hip >log 2>&1",
             p->dir, all,
             mode && !strcmp(mode, "no-dot") /* as for a chip without dot products */
                 ? " -Xclang -target-feature -Xclang -dot10-insts -Xclang -target-feature -Xclang "
                   "-dot1-insts"
                 : "");
    add_to_checksum(p, command + strlen("cd ") + strlen(p->dir));
    snprintf(path, sizeof path, "%s/out.co", p->dir);
    int bad = mode && !strcmp(mode, "fail");
    if (!bad && read_kept(p, kept)) {
        bad = system(command) || read_code(p, path, 0);
        if (!bad) keep(p, kept);
    }
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
