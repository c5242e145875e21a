/* unit_hip.c: the table of GPU kernels as the host has it: families of images, names of --variant;
 * and the images in this program. */
#include "backend-hip/hip.h"
#include "backend-hip/hip_kernels.h"
#include "backend-hip/runtime/hip_images.h"

#include <ctype.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const int families[] = {IMAGES_GFX906, IMAGES_VECTOR, IMAGES_MFMA, IMAGES_WMMA,
                               IMAGES_WMMA12, IMAGES_SM80,   IMAGES_SM90};
enum { N_FAMILIES = sizeof families / sizeof *families };

static void families_of_images(void **state)
{
    static const struct {
        const char *arch;
        int family;
    } image[] = {{"sm_70", IMAGES_VECTOR},
                 {"sm_80", IMAGES_SM80},
                 {"sm_90a", IMAGES_SM90},
                 {"gfx906:sramecc-:xnack-", IMAGES_GFX906},
                 {"gfx900", IMAGES_VECTOR},
                 {"gfx90c:xnack-", IMAGES_VECTOR},
                 {"gfx908", IMAGES_MFMA},
                 {"gfx90a:sramecc+:xnack-", IMAGES_MFMA},
                 {"gfx940", IMAGES_MFMA},
                 {"gfx950", IMAGES_MFMA},
                 {"gfx1030", IMAGES_VECTOR},
                 {"gfx1102", IMAGES_WMMA},
                 {"gfx1151", IMAGES_WMMA},
                 {"gfx1200", IMAGES_WMMA12},
                 {"gfx9-generic", IMAGES_VECTOR},
                 {"gfx9-4-generic", IMAGES_MFMA},
                 {"gfx10-3-generic", IMAGES_VECTOR},
                 {"gfx11-generic", IMAGES_WMMA}};
    (void)state;
    for (size_t i = 0; i < sizeof image / sizeof *image; i++)
        assert_int_equal(hip_image_family(image[i].arch), image[i].family);
}

static void options_as_text(void **state)
{
    static const struct hip_options some[] = {{.wait_seconds = 0},
                                              {.wait_seconds = 7,
                                               .query_halves = 1,
                                               .exchange = HIP_EXCHANGE_HOST,
                                               .library = "/a b/halves=2 wait=3/lib.so"},
                                              {.query_halves = 2, .exchange = HIP_EXCHANGE_PEER},
                                              {.wait_seconds = 600, .library = "x"}};
    static const char *const wrong[] = {"wait=", "halves=1x", "wait=-1", "device=3", "wait=1 b=2"};
    char text[HIP_OPTIONS_BYTES];
    struct hip_options o;
    struct err e;
    (void)state;
    for (size_t i = 0; i < sizeof some / sizeof *some; i++) {
        hip_options_write(&some[i], text, sizeof text);
        assert_int_equal(hip_options_read(&o, text, &e), 0);
        assert_int_equal(o.wait_seconds, some[i].wait_seconds);
        assert_int_equal(o.query_halves, some[i].query_halves);
        assert_int_equal(o.exchange, some[i].exchange);
        if (some[i].library) assert_string_equal(o.library, some[i].library);
        else assert_null(o.library);
    }
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_equal(hip_options_read(&o, wrong[i], &e), -1);
    assert_int_equal(hip_options_read(&o, NULL, &e), 0);
    assert_null(o.library);
}

/* The name is in the list, by itself, as the last word of a name in braces, or, of the paper's, as
 * the middle of one. */
static int is_listed(const char *list, const char *name)
{
    int stem = (int)(strrchr(name, '_') + 1 - name);
    char text[64];
    snprintf(text, sizeof text, ", %.*s", stem, name);
    const char *last = name + stem, *papers = strstr(list, ", paper_{");
    if (!strncmp(name, "paper_", 6)) {
        snprintf(text, sizeof text, "%.*s", stem - 7, name + 6);
        const char *p = papers ? strstr(papers, text) : NULL, after = p ? p[strlen(text)] : 0;
        return p && strchr("{,", p[-1]) && (after == ',' || after == '}') &&
               strstr(p, "}_{1..8}") && strlen(last) == 1 && strchr("12345678", *last);
    }
    for (const char *p = list; (p = strstr(p, text));) {
        p += strlen(text) - (p[strlen(text)] != '{'); /* before a name, or at its brace */
        do {
            size_t n = strcspn(++p, ",}");
            if (n == strlen(last) && !strncmp(p, last, n)) return 1;
            p += n;
        } while (*p == ',' && p[1] != ' ');
    }
    return 0;
}

/* --variant names kernels of linears; those of experts follow from them. */
static int is_variant(int k)
{
    const struct hip_kernel_row *v = &hip_kernels[k];
    return v->rows && (v->op == FOR_LINEAR || v->op == FOR_PAPER);
}

/* An error lists every kernel of an image: none is lost at the end of the message. */
static void unknown_variant(void **state)
{
    (void)state;
    for (int i = 0; i < N_FAMILIES; i++) {
        struct err e = {.msg = ""};
        int k, n = 0;
        assert_int_equal(hip_find_variant("none", families[i], &k, &e), -1);
        assert_true(strlen(e.msg) < sizeof e.msg - 1);
        for (k = 0; k < K_COUNT; k++) {
            if (!is_variant(k) || !(hip_kernels[k].images & families[i])) continue;
            assert_true(is_listed(e.msg, hip_kernels[k].name));
            n++;
        }
        assert_true(n > (families[i] & IMAGES_ABLATION ? 64 : 9)); /* the paper's are 64 */
    }
}

static void known_variants(void **state)
{
    struct err e;
    int k, n = 0;
    (void)state;
    assert_int_equal(hip_find_variant(NULL, IMAGES_GFX906, &k, &e), 0);
    assert_int_equal(k, -1);
    for (int i = 0; hip_variant_name(i); i++, n++) {
        assert_int_equal(hip_find_variant(hip_variant_name(i), IMAGES_GFX906, &k, &e), 0);
        assert_true(i == 0 ? k == -1 : hip_kernels[k].op == FOR_LINEAR);
    }
    for (int i = 0; hip_paper_variant_name(i); i++, n++) {
        assert_int_equal(hip_find_variant(hip_paper_variant_name(i), IMAGES_GFX906, &k, &e), 0);
        assert_true(hip_kernels[k].op == FOR_PAPER);
    }
    for (k = 0; k < K_COUNT; k++) n -= is_variant(k);
    assert_int_equal(n, 1); /* "auto" */
}

/* Every register of a module has a number below the count that its function declares. */
static void check_registers(const char *ptx)
{
    enum { CLASSES = 16 };
    char name[CLASSES][8] = {{0}}, class[8];
    long count[CLASSES] = {0};
    size_t n_seen = 0;
    for (const char *p = ptx; (p = strchr(p, '%')) != NULL;) {
        size_t length = strspn(++p, "abcdefghijklmnopqrstuvwxyz");
        int k = 0, declared = p[length] == '<';
        if (!length || length >= sizeof class || (!declared && !isdigit((unsigned char)p[length])))
            continue;
        snprintf(class, sizeof class, "%.*s", (int)length, p);
        while (name[k][0] && strcmp(name[k], class)) assert_true(++k < CLASSES);
        strcpy(name[k], class);
        long number = strtol(p + length + declared, NULL, 10);
        if (declared) count[k] = number;
        else assert_true(number > 0 && number < count[k]);
        n_seen += !declared;
    }
    assert_true(n_seen > 10000);
}

/* A module may be made of what stands ahead of all kernels and any one of them. */
static void check_entries(const char *ptx, int family)
{
    static const char mark[] = ".visible .entry ";
    char name[80];
    int n = 0, n_rows = 0;
    for (const char *p = strstr(ptx, mark); p; n++) {
        const char *next = strstr(p + 1, mark), *end = next ? next : p + strlen(p);
        assert_memory_equal(end - 3, "\n}\n", 3);
        p = next;
    }
    for (int k = 0; k < K_COUNT; k++) {
        if (!(hip_kernels[k].images & family)) continue;
        snprintf(name, sizeof name, "%s%s(", mark, hip_kernels[k].name);
        assert_non_null(strstr(ptx, name));
        n_rows++;
    }
    assert_int_equal(n, n_rows);
}

static void images_unpack(void **state)
{
    struct err e;
    (void)state;
    for (const struct hip_image *m = hip_images; m->arch; m++) {
        char *object = hip_image_unpack(m, &e);
        assert_non_null(object);
        if (m->is_ptx) {
            assert_non_null(strstr(object, ".version"));
            check_registers(object);
            check_entries(object, hip_image_family(m->arch));
        } else assert_memory_equal(object, "\177ELF", 4);
        free(object);
    }
    if (hip_kernel_sources.data) {
        char *sources = hip_image_unpack(&hip_kernel_sources, &e);
        assert_non_null(sources);
        assert_memory_equal(sources, "backend-hip/kernels/", 20);
        free(sources);
    }
}

/* One byte changed, or the end missing: no kernel is run from that. */
static void damaged_image(void **state)
{
    struct hip_image m = hip_images[0];
    struct err e;
    int n_seen = 0;
    (void)state;
    if (!m.arch) return;
    while (hip_images[m.nth + 1].data == m.data) m = hip_images[m.nth + 1];
    char damaged[80];
    snprintf(damaged, sizeof damaged, "the kernels of %s in this program are damaged", m.arch);
    size_t bytes = (size_t)(m.end - m.data);
    unsigned char *copy = malloc(bytes);
    assert_non_null(copy);
    memcpy(copy, m.data, bytes);
    m.data = copy;
    m.end = copy + bytes;
    for (int i = 1; i < 64; i++) {
        size_t at = bytes * (size_t)i / 64;
        copy[at] ^= 1;
        char *object = hip_image_unpack(&m, &e);
        if (object) assert_memory_equal(object, "\177ELF", 4); /* a byte that changes no image */
        else assert_string_equal(e.msg, damaged);
        n_seen += !object;
        free(object);
        copy[at] ^= 1;
    }
    assert_true(n_seen >= 60);
    m.end -= bytes / 8;
    assert_null(hip_image_unpack(&m, &e));
    free(copy);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(families_of_images), cmocka_unit_test(unknown_variant),
        cmocka_unit_test(known_variants),     cmocka_unit_test(images_unpack),
        cmocka_unit_test(options_as_text),    cmocka_unit_test(damaged_image),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
