/* See harness.h. */
#include "tests/emulators/gfx906/test/harness.h"

#include <dlfcn.h>
#include <elf.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct gpu gpu;
int n_passed, n_failed, n_skipped;

void check(int ok, const char *what, ...)
{
    va_list args;
    if (ok) {
        n_passed++;
        return;
    }
    n_failed++;
    printf("FAIL ");
    va_start(args, what);
    vprintf(what, args);
    va_end(args);
    printf("\n");
}

void skip(const char *what)
{
    n_skipped++;
    printf("SKIP %s\n", what);
}

void code_add(struct code *c, const struct line *lines, int n)
{
    for (int i = 0; i < n; i++) {
        for (int k = 0; k < lines[i].n; k++) c->word[c->n++] = lines[i].word[k];
    }
}

/* --- a code object by hand */
enum {
    NOTE_AT = 256,
    SYMBOLS_AT = 512,
    STRINGS_AT = 640,
    SECTIONS_AT = 704,
    DESCRIPTOR_AT = 1024,
    CODE_AT = 1280
};

static void put32(uint8_t *p, uint32_t x) { memcpy(p, &x, 4); }
static uint8_t *pack_str(uint8_t *p, const char *s)
{
    size_t n = strlen(s);
    *p++ = (uint8_t)(0xa0 | n);
    memcpy(p, s, n);
    return p + n;
}
static uint8_t *pack_pair(uint8_t *p, const char *key, int value)
{
    p = pack_str(p, key);
    *p++ = 0xcd;
    *p++ = (uint8_t)(value >> 8), *p++ = (uint8_t)value;
    return p;
}

/* The note: metadata of one kernel with two pointers as arguments. */
static uint32_t put_note(uint8_t *note)
{
    uint8_t *text = note + 20, *p = text;
    *p++ = 0x81, p = pack_str(p, "amdhsa.kernels"), *p++ = 0x91;
    *p++ = 0x84;
    p = pack_pair(pack_str(pack_str(p, ".name"), "test"), ".kernarg_segment_size", 16);
    p = pack_pair(p, ".max_flat_workgroup_size", 1024);
    p = pack_str(p, ".args"), *p++ = 0x92;
    for (int k = 0; k < 2; k++) {
        *p++ = 0x83;
        p = pack_pair(pack_pair(p, ".offset", 8 * k), ".size", 8);
        p = pack_str(pack_str(p, ".value_kind"), "global_buffer");
    }
    put32(note, 7), put32(note + 4, (uint32_t)(p - text)), put32(note + 8, 32);
    memcpy(note + 12, "AMDGPU", 7);
    return (uint32_t)(20 + ((p - text + 3) & ~3));
}

static void put_descriptor(uint8_t *d, const struct build *b)
{
    int vgprs = b->vgprs ? b->vgprs : 16, sgprs = b->sgprs ? b->sgprs : 48;
    uint32_t denormals = b->flush_denormals ? 0 : 0xf0;
    put32(d, (uint32_t)b->lds), put32(d + 4, (uint32_t)b->scratch), put32(d + 8, 16);
    put32(d + 16, CODE_AT - DESCRIPTOR_AT);
    put32(d + 48, (uint32_t)((vgprs + 3) / 4 - 1) | (uint32_t)((sgprs + 15) / 16 - 1) << 7 |
                      denormals << 12 | 1 << 21 | 1 << 23);
    put32(d + 52, 2 << 1 | 1 << 7 | (uint32_t)(b->dimensions ? b->dimensions - 1 : 0) << 11);
    put32(d + 56, 8); /* the address of the arguments */
}

void *code_object(const struct code *c, const struct build *b, size_t *bytes)
{
    size_t size = CODE_AT + 4 * (size_t)c->n;
    uint8_t *d = calloc(1, size);
    Elf64_Ehdr h = {.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT, 64, 2},
                    .e_type = ET_DYN,
                    .e_machine = 224,
                    .e_version = EV_CURRENT,
                    .e_phoff = sizeof h,
                    .e_shoff = SECTIONS_AT,
                    .e_flags = 0x2f | 0x200 | 0x800,
                    .e_ehsize = sizeof h,
                    .e_phentsize = sizeof(Elf64_Phdr),
                    .e_phnum = 1,
                    .e_shentsize = sizeof(Elf64_Shdr),
                    .e_shnum = 4};
    Elf64_Phdr ph = {.p_type = PT_LOAD, .p_filesz = size, .p_memsz = size};
    Elf64_Sym sym[2] = {{0},
                        {.st_name = 1, .st_shndx = 1, .st_value = DESCRIPTOR_AT, .st_size = 64}};
    uint32_t note = put_note(d + NOTE_AT);
    Elf64_Shdr sh[4] = {
        {0},
        {.sh_type = SHT_NOTE, .sh_offset = NOTE_AT, .sh_size = note},
        {.sh_type = SHT_DYNSYM, .sh_offset = SYMBOLS_AT, .sh_size = sizeof sym, .sh_link = 3},
        {.sh_type = SHT_STRTAB, .sh_offset = STRINGS_AT, .sh_size = 9}};
    memcpy(d, &h, sizeof h);
    memcpy(d + sizeof h, &ph, sizeof ph);
    memcpy(d + SYMBOLS_AT, sym, sizeof sym);
    memcpy(d + STRINGS_AT, "\0test.kd", 9);
    memcpy(d + SECTIONS_AT, sh, sizeof sh);
    put_descriptor(d + DESCRIPTOR_AT, b);
    memcpy(d + CODE_AT, c->word, 4 * (size_t)c->n);
    *bytes = size;
    return d;
}

int run_code(const struct code *c, const struct build *b, const void *in, size_t in_bytes,
             void *out, size_t out_bytes, const unsigned grid[3], const unsigned block[3])
{
    size_t bytes;
    void *image = code_object(c, b, &bytes), *module = NULL, *f = NULL, *din = NULL, *dout = NULL;
    gpu.reset();
    int rc = gpu.load(&module, image);
    if (!rc) rc = gpu.function(&f, module, "test");
    if (!rc) rc = gpu.alloc(&din, in_bytes);
    if (!rc) rc = gpu.alloc(&dout, out_bytes);
    if (!rc) rc = gpu.to_device(din, in, in_bytes);
    memset(out, 0, out_bytes);
    if (!rc) rc = gpu.to_device(dout, out, out_bytes);
    void *params[] = {&din, &dout};
    if (!rc)
        rc = gpu.launch(f, grid[0], grid[1], grid[2], block[0], block[1], block[2], 0, NULL, params,
                        NULL);
    if (!rc) rc = gpu.sync();
    if (!rc) rc = gpu.to_host(out, dout, out_bytes);
    gpu.free(din);
    gpu.free(dout);
    if (module) gpu.unload(module);
    free(image);
    return rc;
}

static void open_library(const char *path)
{
    void *h = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!h) {
        fprintf(stderr, "gfx906: %s\n", dlerror());
        exit(1);
    }
    const struct {
        void *slot;
        const char *name;
    } t[] = {{&gpu.alloc, "hipMalloc"},
             {&gpu.free, "hipFree"},
             {&gpu.to_device, "hipMemcpyHtoD"},
             {&gpu.to_host, "hipMemcpyDtoH"},
             {&gpu.load, "hipModuleLoadData"},
             {&gpu.unload, "hipModuleUnload"},
             {&gpu.function, "hipModuleGetFunction"},
             {&gpu.launch, "hipModuleLaunchKernel"},
             {&gpu.sync, "hipDeviceSynchronize"},
             {&gpu.reset, "hipDeviceReset"},
             {&gpu.stats, "gfx906_stats_get"},
             {&gpu.stats_reset, "gfx906_stats_reset"},
             {&gpu.fail_launch, "gfx906_fail_launch"},
             {&gpu.lose_device, "gfx906_lose_device"},
             {&gpu.fail_alloc, "gfx906_fail_alloc"},
             {&gpu.step_limit, "gfx906_set_step_limit"},
             {&gpu.last_fault, "gfx906_last_fault"},
             {&gpu.portable_lanes, "gfx906_portable_lanes"},
             {&gpu.print_faults, "gfx906_print_faults"}};
    for (int k = 0; k < COUNT(t); k++) {
        void *p = dlsym(h, t[k].name);
        if (!p) {
            fprintf(stderr, "gfx906: %s is missing in %s\n", t[k].name, path);
            exit(1);
        }
        memcpy(t[k].slot, &p, sizeof p);
    }
}

void each_line(void (*f)(const struct line *l))
{
    each_op_line(f);
    each_program_line(f);
    each_fault_line(f);
    each_api_line(f);
}

int main(int argc, char **argv)
{
    char path[4096];
    int attend = argc == 3 && !strcmp(argv[2], "--count-attend");
    if (argc != 2 && !attend && (argc != 5 || strcmp(argv[2], "--count"))) {
        fprintf(stderr, "usage: gfx906 BUILD_DIR [--count IN OUT | --count-attend]\n");
        return 2;
    }
    snprintf(path, sizeof path, "%s/tests/bin/libamdhip64-gfx906.so", argv[1]);
    open_library(path);
    gpu.print_faults(0);
    if (attend) {
        test_attend_counts(argv[1], 1);
        return n_failed != 0;
    }
    if (argc == 5) return print_counts(argv[1], atoi(argv[3]), atoi(argv[4]));
    test_words();
    gpu.portable_lanes(1);
    test_ops();
    gpu.portable_lanes(0);
    test_ops();
    test_programs();
    test_faults();
    test_api();
    test_compiled(argv[1]);
    test_kernel_counts(argv[1]);
    test_attend_counts(argv[1], 0);
    printf("gfx906: %d passed, %d failed, %d skipped\n", n_passed, n_failed, n_skipped);
    return n_failed != 0;
}
