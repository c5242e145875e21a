#include "core/base/json.h"

#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

static _Thread_local int lacked_memory;
static _Thread_local jmp_buf *reading; /* set during json_read: a failed allocation jumps there */

static void *hook(size_t n)
{
    void *p = malloc(n);
    if (p) return p;
    lacked_memory = 1;
    if (reading) longjmp(*reading, 1);
    return NULL;
}

/* Unless someone else in this process has set functions of their own. */
__attribute__((constructor)) static void set_hook(void)
{
    json_malloc_t allocates;
    json_free_t frees;
    json_get_alloc_funcs(&allocates, &frees);
    if (allocates == malloc && frees == free) json_set_alloc_funcs(hook, free);
}

int json_is_ours(void)
{
    json_malloc_t allocates;
    json_free_t frees;
    json_get_alloc_funcs(&allocates, &frees);
    return allocates == hook;
}

json_t *json_read(const char *text, size_t n, size_t flags, json_error_t *why, struct err *e)
{
    json_error_t own;
    jmp_buf here;
    if (setjmp(here)) { /* jansson's memory leaks here: its pointers are lost, and the program ends
                           for lack of memory */
        reading = NULL;
        err_memory(e);
        return NULL;
    }
    reading = &here;
    json_t *j = json_loadb(text, n, flags, &own);
    reading = NULL;
    if (!j) err_set(e, "%s", own.text);
    if (why) *why = own;
    return j;
}

/* Bytes of a value at p that Python's json writes and reads and jansson does not: NaN, Infinity,
 * -Infinity, integers beyond 64 bits, numbers beyond a double. 0: none is there. */
static size_t odd_number(const char *p, const char *end)
{
    static const char *const words[] = {"-Infinity", "Infinity", "NaN"};
    char number[400];
    size_t n = 0;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        n = strlen(words[i]);
        if ((size_t)(end - p) >= n && !memcmp(p, words[i], n)) return n;
    }
    for (n = 0; p + n < end && p[n] && strchr("+-.0123456789eE", p[n]); n++) continue;
    if (!n || n >= sizeof number) return n;
    memcpy(number, p, n);
    number[n] = 0;
    if (strpbrk(number, ".eE")) return isinf(strtod(number, NULL)) ? n : 0;
    errno = 0;
    strtoll(number, NULL, 10);
    return errno ? n : 0;
}

/* Writes text [n] to out with quotes around such values; returns its bytes. */
static size_t quote_numbers(const char *text, size_t n, char *out)
{
    size_t at = 0;
    char before = 0; /* the last character outside strings and white space */
    for (const char *p = text, *end = text + n; p < end;) {
        size_t odd = before && strchr(":,[", before) ? odd_number(p, end) : 0;
        if (odd) {
            out[at++] = '"';
            memcpy(out + at, p, odd);
            at += odd;
            out[at++] = '"';
            before = '"';
            p += odd;
            continue;
        }
        if (*p == '"') /* up to its end */
            for (out[at++] = *p++; p < end && *p != '"';) {
                if (*p == '\\' && p + 1 < end) out[at++] = *p++;
                out[at++] = *p++;
            }
        else if (!strchr(" \t\r\n", *p)) before = *p;
        if (p < end) out[at++] = *p++;
    }
    return at;
}

json_t *json_read_python(const char *text, size_t n, size_t flags, json_error_t *why, struct err *e)
{
    json_t *j = json_read(text, n, flags, why, e);
    if (j || err_is_memory(e)) return j;
    char *quoted = malloc(3 * n + 1); /* every value, with its quotes */
    if (!quoted) {
        err_memory(e);
        return NULL;
    }
    size_t bytes = quote_numbers(text, n, quoted);
    if (bytes != n) j = json_read(quoted, bytes, flags, why, e);
    free(quoted);
    return j;
}

json_t *json_text(const char *s)
{
    static const char instead[] = "\xef\xbf\xbd";
    char *text = s ? malloc(strlen(s) * (sizeof instead - 1) + 1) : NULL;
    size_t n = 0;
    for (utf8proc_ssize_t got; text && *s; s += got) {
        utf8proc_int32_t c;
        got = utf8proc_iterate((const utf8proc_uint8_t *)s, -1, &c);
        const char *from = got > 0 ? s : instead;
        size_t bytes = got > 0 ? (size_t)got : sizeof instead - 1;
        memcpy(text + n, from, bytes);
        n += bytes;
        if (got <= 0) got = 1;
    }
    if (s && !text) lacked_memory = 1;
    json_t *j = text ? json_stringn(text, n) : NULL;
    free(text);
    return j;
}

const char *json_why(const json_error_t *why)
{
    static const struct {
        const char *begins, *means; /* jansson has one code for all syntax errors */
    } syntax[] = {{"control character", "a control character inside a string"},
                  {"unexpected newline", "a line end inside a string"},
                  {"invalid escape", "an unknown escape in a string"},
                  {"invalid Unicode", "an escape that is no character"},
                  {"invalid token", "an unknown word"},
                  {"string or '}' expected", "a key is missing"},
                  {"':' expected", "a colon is missing"},
                  {"',' expected", "a comma is missing"},
                  {"'}' expected", "a comma or } is missing"},
                  {"']' expected", "a comma or ] is missing"},
                  {"'[' or '{' expected", "it begins with neither { nor ["}};
    switch (json_error_code(why)) {
    case json_error_premature_end_of_input: return "it ends too early";
    case json_error_end_of_input_expected: return "something follows its end";
    case json_error_numeric_overflow: return "a number is too large";
    case json_error_duplicate_key: return "a key appears twice";
    case json_error_stack_overflow: return "it is nested too deep";
    case json_error_null_character:
    case json_error_null_byte_in_key: return "a NUL in a string";
    case json_error_invalid_utf8: return "a string is not UTF-8";
    default: break;
    }
    for (size_t i = 0; i < sizeof syntax / sizeof *syntax; i++)
        if (!strncmp(why->text, syntax[i].begins, strlen(syntax[i].begins))) return syntax[i].means;
    return "something is out of place";
}

int json_check(struct err *e) { return lacked_memory ? err_memory(e) : 0; }

void json_forget(void) { lacked_memory = 0; }
