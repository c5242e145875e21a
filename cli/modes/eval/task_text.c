#include "cli/modes/eval/task_text.h"

#include "cli/text/out.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

/* ---- characters */

/* The character that begins TEXT [n] and its bytes; a byte that is no part of one is itself. */
static utf8proc_int32_t character(const char *text, size_t n, size_t *bytes)
{
    utf8proc_int32_t c;
    utf8proc_ssize_t got = utf8proc_iterate((const utf8proc_uint8_t *)text, (utf8proc_ssize_t)n,
                                            &c);
    *bytes = got > 0 ? (size_t)got : 1;
    return got > 0 ? c : 0xFFFD;
}

/* str.isspace */
static int is_space(utf8proc_int32_t c)
{
    return (c >= 0x09 && c <= 0x0d) || (c >= 0x1c && c <= 0x20) || c == 0x85 || c == 0xa0 ||
           c == 0x1680 || (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 ||
           c == 0x202f || c == 0x205f || c == 0x3000;
}

size_t task_text_begin(const char *text, size_t n)
{
    size_t at = 0, bytes;
    while (at < n && is_space(character(text + at, n - at, &bytes))) at += bytes;
    return at;
}

size_t task_text_end(const char *text, size_t n)
{
    while (n) {
        size_t at = n - 1, bytes;
        while (at && n - at < 4 && (text[at] & 0xC0) == 0x80) at--;
        if (!is_space(character(text + at, n - at, &bytes)) || bytes != n - at) break;
        n = at;
    }
    return n;
}

int task_text_length(const char *text)
{
    int n = 0;
    for (; *text; text++) n += (*text & 0xC0) != 0x80;
    return n;
}

/* What was built, as a string; NULL: no memory. */
static char *taken(struct out *o)
{
    out_bytes(o, "", 1);
    if (!out_failed(o)) return o->p;
    out_free(o);
    return NULL;
}

char *task_text_strip(const char *text)
{
    size_t n = task_text_end(text, strlen(text)), begin = task_text_begin(text, n);
    return strndup(text + begin, n - begin);
}

/* ---- HellaSwag */

/* Every FROM as TO, from the left. */
static char *replaced(const char *text, const char *from, const char *to)
{
    struct out o = {0};
    for (const char *hit; (hit = strstr(text, from)); text = hit + strlen(from)) {
        out_bytes(&o, text, (size_t)(hit - text));
        out_text(&o, to);
    }
    out_text(&o, text);
    return taken(&o);
}

/* Without what stands from "[" to the next "]" of the same line. */
static char *without_brackets(const char *text)
{
    struct out o = {0};
    while (*text) {
        size_t inside = *text == '[' ? 1 + strcspn(text + 1, "]\n") : 0;
        if (inside && text[inside] == ']') text += inside + 1;
        else out_bytes(&o, text++, 1);
    }
    return taken(&o);
}

char *task_text_clean(const char *text)
{
    char *stripped = task_text_strip(text),
         *titled = stripped ? replaced(stripped, " [title]", ". ") : NULL,
         *bare = titled ? without_brackets(titled) : NULL,
         *clean = bare ? replaced(bare, "  ", " ") : NULL;
    free(stripped);
    free(titled);
    free(bare);
    return clean;
}

/* ---- capital letters */

/* Characters that become several in a title (Unicode's SpecialCasing.txt). */
static const struct {
    int c, title[3];
} titles[] = {
    {0x00df, {0x0053, 0x0073}},         {0x0149, {0x02bc, 0x004e}},
    {0x01f0, {0x004a, 0x030c}},         {0x0390, {0x0399, 0x0308, 0x0301}},
    {0x03b0, {0x03a5, 0x0308, 0x0301}}, {0x0587, {0x0535, 0x0582}},
    {0x1e96, {0x0048, 0x0331}},         {0x1e97, {0x0054, 0x0308}},
    {0x1e98, {0x0057, 0x030a}},         {0x1e99, {0x0059, 0x030a}},
    {0x1e9a, {0x0041, 0x02be}},         {0x1f50, {0x03a5, 0x0313}},
    {0x1f52, {0x03a5, 0x0313, 0x0300}}, {0x1f54, {0x03a5, 0x0313, 0x0301}},
    {0x1f56, {0x03a5, 0x0313, 0x0342}}, {0x1fb2, {0x1fba, 0x0345}},
    {0x1fb4, {0x0386, 0x0345}},         {0x1fb6, {0x0391, 0x0342}},
    {0x1fb7, {0x0391, 0x0342, 0x0345}}, {0x1fc2, {0x1fca, 0x0345}},
    {0x1fc4, {0x0389, 0x0345}},         {0x1fc6, {0x0397, 0x0342}},
    {0x1fc7, {0x0397, 0x0342, 0x0345}}, {0x1fd2, {0x0399, 0x0308, 0x0300}},
    {0x1fd3, {0x0399, 0x0308, 0x0301}}, {0x1fd6, {0x0399, 0x0342}},
    {0x1fd7, {0x0399, 0x0308, 0x0342}}, {0x1fe2, {0x03a5, 0x0308, 0x0300}},
    {0x1fe3, {0x03a5, 0x0308, 0x0301}}, {0x1fe4, {0x03a1, 0x0313}},
    {0x1fe6, {0x03a5, 0x0342}},         {0x1fe7, {0x03a5, 0x0308, 0x0342}},
    {0x1ff2, {0x1ffa, 0x0345}},         {0x1ff4, {0x038f, 0x0345}},
    {0x1ff6, {0x03a9, 0x0342}},         {0x1ff7, {0x03a9, 0x0342, 0x0345}},
    {0xfb00, {0x0046, 0x0066}},         {0xfb01, {0x0046, 0x0069}},
    {0xfb02, {0x0046, 0x006c}},         {0xfb03, {0x0046, 0x0066, 0x0069}},
    {0xfb04, {0x0046, 0x0066, 0x006c}}, {0xfb05, {0x0053, 0x0074}},
    {0xfb06, {0x0053, 0x0074}},         {0xfb13, {0x0544, 0x0576}},
    {0xfb14, {0x0544, 0x0565}},         {0xfb15, {0x0544, 0x056b}},
    {0xfb16, {0x054e, 0x0576}},         {0xfb17, {0x0544, 0x056d}},
};

static void put(struct out *o, utf8proc_int32_t c)
{
    utf8proc_uint8_t bytes[4];
    out_bytes(o, bytes, (size_t)utf8proc_encode_char(c, bytes));
}

static void put_title(struct out *o, utf8proc_int32_t c)
{
    for (size_t i = 0; i < sizeof titles / sizeof *titles; i++)
        if (titles[i].c == c) {
            for (int k = 0; k < 3 && titles[i].title[k]; k++) put(o, titles[i].title[k]);
            return;
        }
    put(o, utf8proc_totitle(c));
}

static int is_cased(utf8proc_int32_t c)
{
    utf8proc_category_t k = utf8proc_category(c);
    return k == UTF8PROC_CATEGORY_LU || k == UTF8PROC_CATEGORY_LL || k == UTF8PROC_CATEGORY_LT;
}

/* What a sigma at the end of a word is looked for across. */
static int is_ignored(utf8proc_int32_t c)
{
    utf8proc_category_t k = utf8proc_category(c);
    return k == UTF8PROC_CATEGORY_MN || k == UTF8PROC_CATEGORY_ME || k == UTF8PROC_CATEGORY_CF ||
           k == UTF8PROC_CATEGORY_LM || k == UTF8PROC_CATEGORY_SK || c == '\'' || c == '.' ||
           c == ':' || c == 0xb7 || c == 0x2018 || c == 0x2019 || c == 0x2024 || c == 0x2027;
}

/* Whether a capital sigma behind TEXT [at] ends its word. */
static int ends_word(const char *text, size_t at, size_t n)
{
    enum { SIGMA_BYTES = 2 };
    size_t bytes, from = 0;
    int before = 0;
    for (; from < at; from += bytes) {
        utf8proc_int32_t c = character(text + from, at - from, &bytes);
        if (!is_ignored(c)) before = is_cased(c);
    }
    for (from = at + SIGMA_BYTES; from < n; from += bytes) {
        utf8proc_int32_t c = character(text + from, n - from, &bytes);
        if (!is_ignored(c)) return before && !is_cased(c);
    }
    return before;
}

static void put_lower(struct out *o, const char *text, size_t at, size_t n)
{
    size_t bytes;
    utf8proc_int32_t c = character(text + at, n - at, &bytes);
    if (c == 0x130) put(o, 'i'), put(o, 0x307); /* I with a dot */
    else if (c == 0x3a3) put(o, ends_word(text, at, n) ? 0x3c2 : 0x3c3);
    else put(o, utf8proc_tolower(c));
}

/* TITLED characters as a title has them, the others in lower case. */
static char *lowered(const char *text, int titled)
{
    struct out o = {0};
    size_t n = strlen(text), bytes;
    for (size_t at = 0; at < n; at += bytes, titled = 0) {
        utf8proc_int32_t c = character(text + at, n - at, &bytes);
        if (titled) put_title(&o, c);
        else put_lower(&o, text, at, n);
    }
    return taken(&o);
}

char *task_text_capitalize(const char *text) { return lowered(text, 1); }
char *task_text_lower(const char *text) { return lowered(text, 0); }
