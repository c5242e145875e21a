/* fiber_images.c: the code objects and PTX that a pretended device is given: whether they are for
 * it, and which kernels they have. Must not know: what runs in their place. */
#include "tests/emulators/fibers/fibers_int.h"

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

int fiber_image_fits(const void *image, int device)
{
    enum { MACHINE_AT = 18, FLAGS_AT = 48, EM_AMDGPU = 224 };
    static const struct {
        const char *name;
        uint8_t flags;
    } arch[] = {{"gfx90a", 0x3f},  {"gfx906", 0x2f},  {"gfx908", 0x30}, {"gfx942", 0x4c},
                {"gfx1030", 0x36}, {"gfx1100", 0x41}, {"gfx1201", 0x4e}};
    const uint8_t *p = image;
    size_t i = 0, length = 0;
    if (IS_CUDA) { /* PTX, a text */
        char target[64];
        snprintf(target, sizeof target, ".target %s\n", FIBERS_TARGET);
        return strstr(image, target) != NULL;
    }
    const char *name = env_item("FIBERS_ARCH", device, &length);
    while (name && i < sizeof arch / sizeof *arch - 1 &&
           (strncmp(arch[i].name, name, length) || arch[i].name[length]))
        i++;
    return !memcmp(p, "\177ELF\2\1", 6) && p[MACHINE_AT] == EM_AMDGPU &&
           p[FLAGS_AT] == arch[i].flags;
}

/* Where the names of the last image's kernels begin: in PTX behind ".entry ", in a code object's
 * strings ahead of ".kd". It has megabytes and is searched once, not for each name. */
enum { MAX_NAMES = 2048 };
static const char *names[MAX_NAMES];
static int n_names;
static const char *names_of; /* the image */
static pthread_mutex_t names_lock = PTHREAD_MUTEX_INITIALIZER;

static void add_name(const char *name)
{
    if (n_names < MAX_NAMES) names[n_names++] = name;
}

/* By hand: the sanitizers' strstr() measures the whole text first. */
static void find_entries(const char *text)
{
    static const char entry[] = ".entry ";
    for (const char *p = text; *p; p++)
        if (p[0] == '.' && p[1] == 'e' && !strncmp(p, entry, sizeof entry - 1))
            add_name(p + sizeof entry - 1);
}

static void find_descriptors(const char *image)
{
    enum { SECTIONS_AT = 40, SECTION_BYTES_AT = 58, N_SECTIONS_AT = 60 };
    uint64_t bytes;
    uint16_t each, n;
    memcpy(&bytes, image + SECTIONS_AT, sizeof bytes);
    memcpy(&each, image + SECTION_BYTES_AT, sizeof each);
    memcpy(&n, image + N_SECTIONS_AT, sizeof n);
    const char *end = image + bytes + (uint64_t)each * n;
    for (const char *p = image; (p = memmem(p, (size_t)(end - p), ".kd", sizeof ".kd")); p++) {
        const char *name = p;
        while (name > image && name[-1]) name--;
        add_name(name);
    }
}

static int has(const char *image, const char *name)
{
    size_t n = strlen(name);
    if (names_of != image) {
        n_names = 0;
        if (IS_CUDA) find_entries(image);
        else find_descriptors(image);
        names_of = image;
    }
    for (int i = 0; i < n_names; i++)
        if (!strncmp(names[i], name, n) &&
            (IS_CUDA ? names[i][n] == '(' : !strcmp(names[i] + n, ".kd")))
            return 1;
    return 0;
}

int fiber_image_has(const char *image, const char *name)
{
    pthread_mutex_lock(&names_lock);
    int it_has = has(image, name);
    pthread_mutex_unlock(&names_lock);
    return it_has;
}

void fiber_image_forget(const char *image)
{
    pthread_mutex_lock(&names_lock);
    if (names_of == image) names_of = NULL;
    pthread_mutex_unlock(&names_lock);
}
