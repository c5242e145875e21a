/* commands.c: /reset, /system, /read, /save, /load, /regen, /help, /exit; which lines that begin
 * with "/" are messages. */
#include "cli/modes/conversation/conversation.h"

#include "cli/modes/batch/durable.h"
#include "cli/outputs.h"
#include "cli/run.h"
#include "core/base/json.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_SAVED = 256 << 20, MAX_READ = 64 << 20 };
/* The mark of a saved conversation; a record of a batch may have such metadata. */
#define SAVED_BY "opt4gptq-run /save"

static const char help[] =
    "/help           this text\n"
    "/reset          forget all messages but the system message\n"
    "/system TEXT    set the system message; without TEXT: none\n"
    "/regen          answer the last message again, with other random numbers\n"
    "/read FILE      begin the next message with the text of a file\n"
    "/save FILE      write the messages as JSON, as a record of a batch has them\n"
    "/load FILE      continue such messages instead of these\n"
    "/exit           end, as Ctrl-D does\n"
    "A line that ends with \\ goes on in the next one, as do Alt-Enter and a paste; a\n"
    "message within \"\"\" has any lines. A line that begins with / and is no command\n"
    "is a message, as is every line with a space before it. Ctrl-C stops an answer;\n"
    "what there is of it counts.\n";

const char *conversation_last(const struct conversation *c)
{
    size_t n = json_array_size(c->messages);
    const char *role =
        n ? json_string_value(json_object_get(json_array_get(c->messages, n - 1), "role")) : NULL;
    return role ? role : "";
}

void conversation_drop(struct conversation *c)
{
    size_t n = json_array_size(c->messages);
    if (n) json_array_remove(c->messages, n - 1);
}

static int has_system(const struct conversation *c)
{
    const char *role = json_string_value(json_object_get(json_array_get(c->messages, 0), "role"));
    return role && !strcmp(role, "system");
}

static int reset(struct conversation *c, const char *rest, enum command_then *then, struct err *e)
{
    (void)rest, (void)then, (void)e;
    out_clear(&c->read);
    while (json_array_size(c->messages) > (size_t)has_system(c)) conversation_drop(c);
    return 0;
}

static int set_system(struct conversation *c, const char *rest, enum command_then *then,
                      struct err *e)
{
    json_t *one = json_array();
    (void)then;
    int rc = !one    ? err_memory(e)
             : *rest ? run_add_message(one, "system", rest, strlen(rest), "the system message", e)
                     : 0;
    if (!rc && has_system(c)) json_array_remove(c->messages, 0);
    if (!rc && *rest && json_array_insert(c->messages, 0, json_array_get(one, 0)))
        rc = err_memory(e);
    json_decref(one);
    return rc;
}

static int regen(struct conversation *c, const char *rest, enum command_then *then, struct err *e)
{
    (void)rest;
    const char *last = conversation_last(c);
    if (!strcmp(last, "assistant")) {
        conversation_drop(c);
        c->n_again++;
    }
    if (strcmp(conversation_last(c), "user")) return err_set(e, "there is nothing to answer");
    *then = COMMAND_ANSWER;
    return 0;
}

/* The messages of a saved conversation, of a batch's line or of its body; NULL: it has none. */
static json_t *messages_of(json_t *v)
{
    json_t *body = json_object_get(v, "body");
    json_t *m = json_is_array(v) ? v : json_object_get(body ? body : v, "messages");
    return json_is_array(m) ? m : NULL;
}

/* *v: the JSON of a file. */
static int read_saved(const char *path, json_t **v, struct err *e)
{
    const struct options file = {.file = path};
    struct stat st;
    char *text = NULL;
    size_t n = 0;
    *v = NULL;
    if (stat(path, &st)) return err_sys(e, "%s", path);
    if (!S_ISREG(st.st_mode) || st.st_size > MAX_SAVED)
        return err_set(e, "%s: is not a regular file of less than 256 MiB", path);
    if (run_read_text(&file, &text, &n, e)) return -1;
    *v = json_read(text, n, 0, NULL, e);
    free(text);
    if (*v && messages_of(*v)) return 0;
    int no_memory = !*v && err_is_memory(e);
    json_decref(*v);
    *v = NULL;
    return no_memory ? -1 : err_set(e, "%s: is not JSON with messages", path);
}

static void say_messages(const json_t *messages)
{
    size_t n = json_array_size(messages);
    fprintf(stderr, "%zu message%s\n", n, n == 1 ? "" : "s");
}

static int load(struct conversation *c, const char *path, enum command_then *then, struct err *e)
{
    json_t *v, *checked;
    (void)then;
    if (!*path) return err_set(e, "/load needs a file");
    if (read_saved(path, &v, e)) return -1;
    int rc = chat_messages(c->chat, messages_of(v), &checked, e) ? err_prefix(e, "%s", path) : 0;
    if (!rc) {
        json_decref(checked);
        json_decref(c->messages);
        c->messages = json_incref(messages_of(v));
        c->n_again = 0;
        say_messages(c->messages);
    }
    json_decref(v);
    return rc;
}

/* The name in what /read adds is the last part of the path. */
static int read_into(struct conversation *c, const char *path, enum command_then *then,
                     struct err *e)
{
    const struct options file = {.file = path};
    const char *slash = strrchr(path, '/'), *name = slash && slash[1] ? slash + 1 : path;
    struct stat st;
    char *text = NULL;
    size_t n = 0;
    (void)then;
    if (!*path) return err_set(e, "/read needs a file");
    if (stat(path, &st)) return err_sys(e, "%s", path);
    if (!S_ISREG(st.st_mode) || st.st_size > MAX_READ)
        return err_set(e, "%s: is not a regular file of less than 64 MiB", path);
    if (run_read_text(&file, &text, &n, e)) return -1;
    int rc = !n                   ? err_set(e, "%s: is empty", path)
             : memchr(text, 0, n) ? err_set(e, "%s: is no text: it has zero bytes", path)
                                  : 0;
    if (!rc) { /* a JSON string is UTF-8 */
        json_t *probe = json_stringn(text, n);
        if (!probe) rc = err_set(e, "%s: is not UTF-8", path);
        json_decref(probe);
    }
    if (!rc) {
        out_text(&c->read, "--- File: ");
        out_text(&c->read, name);
        out_text(&c->read, " ---\n");
        out_bytes(&c->read, text, n);
        if (text[n - 1] != '\n') out_text(&c->read, "\n");
        rc = out_failed(&c->read) ? err_memory(e) : 0;
    }
    if (rc && out_failed(&c->read)) out_clear(&c->read);
    if (!rc) fprintf(stderr, "%zu bytes, which begin the next message\n", n);
    free(text);
    return rc;
}

/* Whether /save wrote it: its two members, one of them its mark, and no other. No messages at all
 * are nothing to lose. */
static int is_saved(const json_t *v)
{
    const json_t *messages = json_object_get(v, "messages"), *mark = json_object_get(v, "metadata");
    const char *by = json_string_value(json_object_get(mark, "saved_by"));
    if (!json_is_array(messages)) return 0;
    if (json_object_size(v) == 1) return !json_array_size(messages);
    return json_object_size(v) == 2 && json_object_size(mark) == 1 && by && !strcmp(by, SAVED_BY);
}

/* Only what /save wrote is written over, and nothing that this run reads or writes. */
static int may_write(const struct options *o, const char *path, const char *part, struct err *e)
{
    struct stat st;
    json_t *v = NULL;
    if (outputs_check_one(o, "/save", path, e) || outputs_check_one(o, "/save", part, e)) return -1;
    if (lstat(path, &st) || (S_ISREG(st.st_mode) && !st.st_size)) return 0;
    int saved = S_ISREG(st.st_mode) && !read_saved(path, &v, e) && is_saved(v);
    json_decref(v);
    return saved ? 0
                 : err_set(e, "%s: is there and was not written by /save: it stays as it is", path);
}

static int save(struct conversation *c, const char *path, enum command_then *then, struct err *e)
{
    char *part = NULL, *text = NULL;
    int fd = -1, rc = -1;
    (void)then;
    if (!*path) return err_set(e, "/save needs a file");
    json_t *v = json_pack("{s:O, s:{s:s}}", "messages", c->messages, "metadata", "saved_by",
                          SAVED_BY);
    if (!v || !(text = json_dumps(v, JSON_INDENT(1) | JSON_REAL_PRECISION(17))) ||
        asprintf(&part, "%s.part", path) < 0) {
        part = NULL;
        err_memory(e);
    } else if (!may_write(c->o, path, part, e) && !dur_create(&fd, part, path, e)) {
        FILE *f = fdopen(fd, "wb");
        int bad = !f || fprintf(f, "%s\n", text) < 0;
        if (f ? fclose(f) : close(fd)) bad = 1;
        rc = bad || rename(part, path) ? err_sys(e, "%s", path) : 0;
        if (rc) unlink(part);
        else say_messages(c->messages);
    }
    json_decref(v);
    free(text);
    free(part);
    return rc;
}

static int show_help(struct conversation *c, const char *rest, enum command_then *then,
                     struct err *e)
{
    (void)c, (void)rest, (void)then, (void)e;
    fputs(help, stderr);
    return 0;
}

static int leave(struct conversation *c, const char *rest, enum command_then *then, struct err *e)
{
    (void)c, (void)rest, (void)e;
    *then = COMMAND_EXIT;
    return 0;
}

static const struct {
    const char *name; /* behind the slash */
    int (*run)(struct conversation *c, const char *rest, enum command_then *then, struct err *e);
    int takes_text;
} commands[] = {{"help", show_help, 0},    {"?", show_help, 0}, {"reset", reset, 0},
                {"clear", reset, 0},       {"regen", regen, 0}, {"save", save, 1},
                {"system", set_system, 1}, {"load", load, 1},   {"read", read_into, 1},
                {"exit", leave, 0},        {"quit", leave, 0}};
enum { N_COMMANDS = sizeof commands / sizeof *commands };

/* The command that WORD [n] names, behind the slash; N_COMMANDS: none. */
static size_t find_command(const char *word, size_t n)
{
    size_t i = 0;
    while (i < N_COMMANDS && (strlen(commands[i].name) != n || memcmp(commands[i].name, word, n)))
        i++;
    return i;
}

/* Letters to insert, drop or replace, or pairs to swap, between A [n] and B, without regard to
 * case; LONGEST for words that are longer. */
static int distance(const char *a, size_t n, const char *b)
{
    enum { LONGEST = 12 };
    int d[LONGEST + 1][LONGEST + 1];
    size_t m = strlen(b);
    if (n > LONGEST || m > LONGEST) return LONGEST;
    for (size_t i = 0; i <= n; i++)
        for (size_t k = 0; k <= m; k++) {
            int *v = &d[i][k];
            if (!i || !k) {
                *v = (int)(i + k);
                continue;
            }
            *v = d[i - 1][k - 1] + (tolower((unsigned char)a[i - 1]) != b[k - 1]);
            if (d[i - 1][k] + 1 < *v) *v = d[i - 1][k] + 1;
            if (d[i][k - 1] + 1 < *v) *v = d[i][k - 1] + 1;
            if (i > 1 && k > 1 && tolower((unsigned char)a[i - 1]) == b[k - 2] &&
                tolower((unsigned char)a[i - 2]) == b[k - 1] && d[i - 2][k - 2] + 1 < *v)
                *v = d[i - 2][k - 2] + 1;
        }
    return d[n][m];
}

/* A command of this program or another, with a slip of the finger, or its first letters. */
static int resembles_command(const char *word, size_t n)
{
    static const char *const elsewhere[] = {"bye",  "set",  "show",  "glob",    "image", "audio",
                                            "stop", "undo", "retry", "history", "video"};
    for (size_t i = 0; i < sizeof elsewhere / sizeof *elsewhere; i++)
        if (strlen(elsewhere[i]) == n && !memcmp(elsewhere[i], word, n)) return 1;
    for (size_t i = 0; i < N_COMMANDS; i++) {
        const char *name = commands[i].name;
        size_t length = strlen(name);
        if (length < 4) continue;
        if (n > 2 && n < length && !memcmp(name, word, n)) return 1;
        if (distance(word, n, name) <= (length > 4 ? 2 : 1)) return 1;
    }
    return 0;
}

int conversation_is_command(const char *line)
{
    struct stat st;
    char path[64];
    if (line[0] != '/') return 0;
    size_t n = strcspn(line + 1, " \t\n");
    const char *word = line + 1, *rest = word + n + strspn(word + n, " \t\n");
    if (find_command(word, n) < N_COMMANDS) return 1;
    if (!isalpha((unsigned char)*word) || memchr(word, '/', n)) return 0;
    if (resembles_command(word, n)) return 1;
    for (size_t i = 0; i < n; i++)
        if (!isalpha((unsigned char)word[i])) return 0;
    if (*rest || n + 2 > sizeof path) return 0;
    /* one word alone: a mistake, unless it is the path of something */
    snprintf(path, sizeof path, "/%.*s", (int)n, word);
    return lstat(path, &st) != 0;
}

int conversation_command(struct conversation *c, char *line, enum command_then *then, struct err *e)
{
    for (size_t end = strlen(line); end && strchr(" \t", line[end - 1]);) line[--end] = 0;
    size_t n = strcspn(line, " \t\n"), i = find_command(line + 1, n - 1);
    const char *rest = line + n + strspn(line + n, " \t\n");
    *then = COMMAND_DONE;
    if (i == N_COMMANDS)
        return err_set(e, "%.*s is no command (/help lists them; with a space before it, it is a "
                       "message)", (int)(n < 40 ? n : 40), line);
    if (*rest && !commands[i].takes_text) return err_set(e, "/%s takes no text", commands[i].name);
    return commands[i].run(c, rest, then, e);
}
