/* codeobj.c: loader of code objects: an ELF file for gfx906 with kernel descriptors (symbols
 * NAME.kd) and, in a note, metadata in MessagePack (https://llvm.org/docs/AMDGPUUsage.html, code
 * object v3 to v5). All reads are checked against the bounds that the file's headers give; HIP does
 * not pass the length of an image. */
#include "gpu.h"

#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HIP_INVALID_IMAGE = 200, HIP_NO_BINARY = 209, HIP_NO_MEMORY = 2 };
enum {
    EF_MACH = 0xff,
    EF_GFX906 = 0x2f,
    EF_GFX9_GENERIC = 0x51,
    EF_XNACK = 0x300,
    EF_XNACK_ON = 0x300,
    EF_SRAMECC = 0xc00,
    EF_SRAMECC_ON = 0xc00
};
enum { R_ABS64 = 3, R_RELATIVE64 = 13, NOTE_METADATA = 32 };

/* --- MessagePack, the subset that the metadata uses */
struct pack {
    const uint8_t *p, *end;
    bool bad;
};
enum pack_kind { PACK_NIL, PACK_INT, PACK_STR, PACK_ARRAY, PACK_MAP };
struct pack_value {
    enum pack_kind kind;
    uint64_t n;      /* the integer, the length of the string, the number of elements or pairs */
    const char *str; /* not terminated */
};

static uint64_t pack_bytes(struct pack *k, int n)
{
    uint64_t x = 0;
    if (k->end - k->p < n) {
        k->bad = true;
        return 0;
    }
    while (n--) x = x << 8 | *k->p++;
    return x;
}

static struct pack_value pack_next(struct pack *k)
{
    struct pack_value v = {0};
    uint8_t t = (uint8_t)pack_bytes(k, 1);
    if (k->bad) return v;
    if (t < 0x80) v.kind = PACK_INT, v.n = t;
    else if (t < 0x90) v.kind = PACK_MAP, v.n = t & 15;
    else if (t < 0xa0) v.kind = PACK_ARRAY, v.n = t & 15;
    else if (t < 0xc0) v.kind = PACK_STR, v.n = t & 31;
    else if (t == 0xc0) v.kind = PACK_NIL;
    else if (t == 0xc2 || t == 0xc3) v.kind = PACK_INT, v.n = t & 1;
    else if (t >= 0xcc && t <= 0xd3) v.kind = PACK_INT, v.n = pack_bytes(k, 1 << (t & 3));
    else if (t >= 0xd9 && t <= 0xdb) v.kind = PACK_STR, v.n = pack_bytes(k, 1 << (t - 0xd9));
    else if (t == 0xdc || t == 0xdd) v.kind = PACK_ARRAY, v.n = pack_bytes(k, t == 0xdc ? 2 : 4);
    else if (t == 0xde || t == 0xdf) v.kind = PACK_MAP, v.n = pack_bytes(k, t == 0xde ? 2 : 4);
    else if (t >= 0xe0) v.kind = PACK_INT, v.n = (uint64_t)(int64_t)(int8_t)t;
    else k->bad = true;
    if (v.kind == PACK_STR) {
        if ((uint64_t)(k->end - k->p) < v.n) k->bad = true;
        else v.str = (const char *)k->p, k->p += v.n;
    } else if ((v.kind == PACK_ARRAY || v.kind == PACK_MAP) && v.n > (uint64_t)(k->end - k->p)) {
        k->bad = true;
    }
    if (k->bad) v = (struct pack_value){0};
    return v;
}

static void pack_skip(struct pack *k, int depth)
{
    struct pack_value v = pack_next(k);
    uint64_t n = v.kind == PACK_ARRAY ? v.n : v.kind == PACK_MAP ? 2 * v.n : 0;
    if (depth > 16) k->bad = true;
    for (uint64_t i = 0; i < n && !k->bad; i++) pack_skip(k, depth + 1);
}

/* Finds the value of KEY in the map at the reader; the reader is then behind the key, or at the end
 * if it is absent. */
static bool pack_find(struct pack *k, const char *key)
{
    struct pack_value map = pack_next(k);
    if (map.kind != PACK_MAP) return false;
    for (uint64_t i = 0; i < map.n && !k->bad; i++) {
        struct pack_value name = pack_next(k);
        if (name.kind == PACK_STR && name.n == strlen(key) && !memcmp(name.str, key, name.n))
            return true;
        pack_skip(k, 0);
    }
    return false;
}

static uint64_t pack_int_of(struct pack map, const char *key)
{
    return pack_find(&map, key) ? pack_next(&map).n : 0;
}

static int kernel_args(struct kernel *kn, struct pack map)
{
    if (!pack_find(&map, ".args")) return 0;
    uint64_t n = pack_next(&map).n;
    kn->args = calloc(n ? n : 1, sizeof *kn->args);
    if (!kn->args) return -1;
    for (uint64_t i = 0; i < n && !map.bad; i++) {
        struct pack kind = map;
        struct pack_value v = {0};
        if (pack_find(&kind, ".value_kind")) v = pack_next(&kind);
        if (v.kind != PACK_STR || v.n < 7 || memcmp(v.str, "hidden_", 7)) {
            kn->args[kn->n_args].offset = (uint32_t)pack_int_of(map, ".offset");
            kn->args[kn->n_args++].size = (uint32_t)pack_int_of(map, ".size");
        }
        pack_skip(&map, 0);
    }
    return map.bad ? -1 : 0;
}

static int read_metadata(struct module *m, const uint8_t *p, size_t size)
{
    struct pack k = {p, p + size, false};
    if (!pack_find(&k, "amdhsa.kernels")) return -1;
    uint64_t n = pack_next(&k).n;
    for (uint64_t i = 0; i < n && !k.bad; i++) {
        struct pack name = k;
        struct pack_value v = {0};
        if (pack_find(&name, ".name")) v = pack_next(&name);
        for (int j = 0; v.kind == PACK_STR && j < m->n_kernels; j++) {
            struct kernel *kn = m->kernels[j];
            if (strlen(kn->name) != v.n || memcmp(kn->name, v.str, v.n)) continue;
            kn->max_threads = (uint32_t)pack_int_of(k, ".max_flat_workgroup_size");
            kn->kernarg_size = (uint32_t)pack_int_of(k, ".kernarg_segment_size");
            if (kernel_args(kn, k) < 0) return -1;
        }
        pack_skip(&k, 0);
    }
    return k.bad ? -1 : 0;
}

static uint32_t get32(const uint8_t *p)
{
    uint32_t x;
    memcpy(&x, p, 4);
    return x;
}

/* The 64 bytes of a kernel descriptor at VALUE in the image. */
static int add_kernel(struct module *m, const char *name, size_t len, uint64_t value)
{
    if (value + 64 > m->size || len >= sizeof((struct kernel *)0)->name) return -1;
    struct kernel *kn = calloc(1, sizeof *kn),
                  **all = realloc(m->kernels, (size_t)(m->n_kernels + 1) * sizeof *all);
    if (all) m->kernels = all;
    if (!kn || !all) {
        free(kn);
        return -1;
    }
    const uint8_t *d = m->image + value;
    int64_t entry;
    memcpy(&entry, d + 16, 8);
    memcpy(kn->name, name, len);
    kn->module = m;
    kn->entry = (uint32_t)((int64_t)value + entry);
    kn->lds_size = get32(d), kn->scratch_size = get32(d + 4), kn->kernarg_size = get32(d + 8);
    kn->rsrc1 = get32(d + 48), kn->rsrc2 = get32(d + 52);
    kn->properties = get32(d + 56) & 0xffff;
    kn->n_vgprs = ((kn->rsrc1 & 63) + 1) * 4;
    kn->n_sgprs = ((kn->rsrc1 >> 6 & 15) / 2 + 1) * 16;
    kn->max_threads = 1024;
    kn->code = calloc(m->size / 4,
                      sizeof *kn->code); /* pages that are never reached take no memory */
    kn->stats = stats_of(kn->name);
    if (!kn->code || !kn->stats || kn->entry % 4 || kn->entry >= m->size) {
        free(kn->code);
        free(kn);
        return -1;
    }
    m->kernels[m->n_kernels++] = kn;
    return 0;
}

static int read_symbols(struct module *m, const uint8_t *d, const Elf64_Shdr *sh,
                        const Elf64_Shdr *strings)
{
    const Elf64_Sym *s = (const void *)(d + sh->sh_offset);
    size_t n = sh->sh_size / sizeof *s;
    m->symbols = calloc(n ? n : 1, sizeof *m->symbols);
    if (!m->symbols) return -1;
    for (size_t k = 0; k < n; k++) {
        if (s[k].st_name >= strings->sh_size || s[k].st_shndx == SHN_UNDEF) continue;
        const char *name = (const char *)d + strings->sh_offset + s[k].st_name;
        size_t len = strlen(name);
        m->symbols[m->n_symbols].name = strdup(name);
        m->symbols[m->n_symbols].value = s[k].st_value;
        m->symbols[m->n_symbols++].size = s[k].st_size;
        if (len > 3 && !strcmp(name + len - 3, ".kd") &&
            add_kernel(m, name, len - 3, s[k].st_value) < 0)
            return -1;
    }
    return 0;
}

static int relocate(struct module *m, const uint8_t *d, const Elf64_Shdr *sh,
                    const Elf64_Shdr *dynsym, char why[128])
{
    const Elf64_Rela *r = (const void *)(d + sh->sh_offset);
    const Elf64_Sym *s = dynsym ? (const void *)(d + dynsym->sh_offset) : NULL;
    for (size_t k = 0; k < sh->sh_size / sizeof *r; k++) {
        uint64_t type = ELF64_R_TYPE(r[k].r_info), value = m->base + (uint64_t)r[k].r_addend;
        if (type == R_ABS64 && s) value += s[ELF64_R_SYM(r[k].r_info)].st_value;
        else if (type != R_RELATIVE64)
            return snprintf(why, 128, "relocation of type %d", (int)type), -1;
        if (r[k].r_offset + 8 > m->size)
            return snprintf(why, 128, "relocation outside the image"), -1;
        memcpy(m->image + r[k].r_offset, &value, 8);
    }
    return 0;
}

/* Selects the entry of a bundle whose name contains gfx906. */
static const uint8_t *from_bundle(const uint8_t *d)
{
    uint64_t n, offset, len;
    memcpy(&n, d + 24, 8);
    const uint8_t *p = d + 32;
    for (uint64_t i = 0; i < n && i < 1000; i++, p += 24 + len) {
        memcpy(&offset, p, 8);
        memcpy(&len, p + 16, 8);
        if (memmem(p + 24, len, "gfx906", 6)) return d + offset;
    }
    return NULL;
}

static int load_segments(struct module *m, const uint8_t *d, const Elf64_Ehdr *h)
{
    const Elf64_Phdr *ph = (const void *)(d + h->e_phoff);
    uint64_t size = 0;
    for (int i = 0; i < h->e_phnum; i++) {
        if (ph[i].p_type == PT_LOAD && ph[i].p_vaddr + ph[i].p_memsz > size)
            size = ph[i].p_vaddr + ph[i].p_memsz;
    }
    m->size = (uint32_t)((size + 7) & ~7ull);
    if (size == 0 || size > 1u << 30 || memory_alloc(&m->base, m->size, ALLOC_CODE) < 0) return -1;
    m->image = memory_host(m->base, m->size);
    memset(m->image, 0, m->size);
    for (int i = 0; i < h->e_phnum; i++) {
        if (ph[i].p_type == PT_LOAD)
            memcpy(m->image + ph[i].p_vaddr, d + ph[i].p_offset, ph[i].p_filesz);
    }
    return 0;
}

static const uint8_t *find_note(const uint8_t *d, const Elf64_Shdr *sh, uint32_t *size)
{
    const uint8_t *p = d + sh->sh_offset, *end = p + sh->sh_size;
    while (end - p >= 12) {
        uint32_t name = (get32(p) + 3) & ~3u, desc = get32(p + 4), type = get32(p + 8);
        if ((uint64_t)(end - p) < 12ull + name + desc) return NULL;
        if (type == NOTE_METADATA && !memcmp(p + 12, "AMDGPU", 7))
            return *size = desc, p + 12 + name;
        p += 12 + name + ((desc + 3) & ~3u);
    }
    return NULL;
}

int module_load(const void *image, struct module **out, char why[128])
{
    const uint8_t *d = image;
    if (!memcmp(d, "__CLANG_OFFLOAD_BUNDLE__", 24) && !(d = from_bundle(d)))
        return strcpy(why, "no gfx906 in the bundle"), HIP_NO_BINARY;
    const Elf64_Ehdr *h = (const void *)d;
    if (memcmp(h->e_ident, ELFMAG, 4) || h->e_ident[EI_CLASS] != ELFCLASS64 || h->e_machine != 224)
        return strcpy(why, "not an AMDGPU ELF file"), HIP_INVALID_IMAGE;
    int only_generic = getenv("GFX906_ONLY_GENERIC") != NULL;
    if ((h->e_flags & EF_MACH) != EF_GFX9_GENERIC &&
        ((h->e_flags & EF_MACH) != EF_GFX906 || only_generic))
        return snprintf(why, 128, "for another GPU (ELF flags 0x%x)", h->e_flags), HIP_NO_BINARY;
    if (h->e_ident[EI_ABIVERSION] >= 2 &&
        ((h->e_flags & EF_XNACK) == EF_XNACK_ON || (h->e_flags & EF_SRAMECC) == EF_SRAMECC_ON))
        return strcpy(why, "needs xnack+ or sramecc+"), HIP_NO_BINARY;
    struct module *m = calloc(1, sizeof *m);
    if (!m || load_segments(m, d, h) < 0) {
        free(m);
        return strcpy(why, "out of memory"), HIP_NO_MEMORY;
    }
    const Elf64_Shdr *sh = (const void *)(d + h->e_shoff), *dynsym = NULL;
    int rc = 0;
    strcpy(why, "symbols or metadata are damaged");
    for (int i = 0; i < h->e_shnum && !rc; i++) {
        if (sh[i].sh_type == SHT_DYNSYM)
            dynsym = &sh[i], rc = read_symbols(m, d, &sh[i], &sh[sh[i].sh_link]);
    }
    for (int i = 0; i < h->e_shnum && !rc; i++) {
        uint32_t size = 0;
        const uint8_t *note = sh[i].sh_type == SHT_NOTE ? find_note(d, &sh[i], &size) : NULL;
        if (note) rc = read_metadata(m, note, size);
        if (sh[i].sh_type == SHT_RELA) rc = relocate(m, d, &sh[i], dynsym, why);
    }
    if (rc) {
        module_free(m);
        return HIP_INVALID_IMAGE;
    }
    *out = m;
    return 0;
}

void module_free(struct module *m)
{
    for (int i = 0; i < m->n_kernels; i++) {
        free(m->kernels[i]->args);
        free(m->kernels[i]->code);
        free(m->kernels[i]);
    }
    for (int i = 0; i < m->n_symbols; i++) free(m->symbols[i].name);
    free(m->symbols);
    free(m->kernels);
    memory_free(m->base);
    free(m);
}

struct kernel *module_kernel(struct module *m, const char *name)
{
    for (int i = 0; i < m->n_kernels; i++) {
        if (!strcmp(m->kernels[i]->name, name)) return m->kernels[i];
    }
    return NULL;
}
