/* conversation.c: -cnv through a pipe: the answers of a batch with the same
 * messages, what is computed for each turn, commands, signals, reasoning. Works on models/demo;
 * usage: conversation BUILD_DIR. */
#include "tests/whole/talk_tools.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char input[600];

/* ---- the answers of a batch */

/* Each answer of a saved conversation is that of a batch's record with the messages before it. */
static void compare(const char *what, const char *members, char *const args[])
{
    json_t *messages = load_messages(), *before = json_array();
    struct process p;
    char *argv[20] = {run_bin, "-m", model, "-i", input, "-o", "-", "--format", "text"},
         want[8000] = "";
    FILE *f = fopen(input, "w");
    int n = 9, n_answers = 0;
    for (size_t i = 0; i < json_array_size(messages); i++) {
        json_t *m = json_array_get(messages, i);
        if (!strcmp(json_string_value(json_object_get(m, "role")), "assistant")) {
            char *text = json_dumps(before, JSON_COMPACT);
            fprintf(f,
                    "{\"custom_id\":\"%zu\",\"method\":\"POST\",\"url\":\"/v1/chat/completions\","
                    "\"body\":{\"messages\":%s,%s}}\n",
                    i, text, members);
            free(text);
            n_answers++;
            size_t at = strlen(want);
            for (const char *s = content(messages, i); *s; s++)
                at += (size_t)sprintf(want + at,
                                      *s == '\n'   ? "\\n"
                                      : *s == '\\' ? "\\\\"
                                                   : "%c",
                                      *s);
            strcat(want, "\n");
        }
        json_array_append(before, m);
    }
    fclose(f);
    for (int i = 0; args[i]; i++) argv[n++] = args[i];
    process_run(&p, argv, NULL);
    check(p.code == 0 && n_answers == 3 && !strcmp(p.out, want), what, &p);
    process_free(&p);
    json_decref(messages);
    json_decref(before);
}

static void turns(void)
{
    struct process p, q;
    char text[900];
    snprintf(text, sizeof text,
             "What is the heart?\nAnd who was\\\nthe king?\r\n\n   \nWhy?\n/save %s \t\n", saved);
#define GREEDY "-n", "40", "--temp", "0"
    TALK(&p, text, GREEDY, "-sys", "This is a book.");
    check(p.code == 0 && strlen(p.out) > 200 && !strchr(p.out, 27) && !strchr(p.out, '>'),
          "three turns through a pipe, without prompts and escapes", &p);
    json_t *m = load_messages();
    check(json_array_size(m) == 7 && !strcmp(content(m, 0), "This is a book.") &&
              !strcmp(content(m, 3), "And who was\nthe king?"),
          "the saved conversation", &p);
    size_t at = 0;
    int same = 1;
    for (size_t i = 2; i < 7; i += 2) { /* stdout is the answers, a newline behind each */
        size_t n = strlen(content(m, i));
        same = same && !strncmp(p.out + at, content(m, i), n) && p.out[at + n] == '\n';
        at += n + 1;
    }
    check(same && !p.out[at], "stdout is the answers", &p);
    json_decref(m);
    compare("the answers are those of a batch", "\"temperature\":0,\"max_tokens\":40",
            (char *[]){NULL});
    TALK(&q, text, GREEDY, "-sys", "This is a book.", "-t", "1", "-b", "7");
    check(q.code == 0 && !strcmp(p.out, q.out), "the same with other steps", &q);
    process_free(&p);
    process_free(&q);
    TALK(&p, text, "-n", "40", "-s", "11", "--temp", "0.9", "--top-k", "0", "--top-p", "1",
         "--min-p", "0.02", "--dry-multiplier", "0.5");
    check(p.code == 0, "a conversation with a seed", &p);
    process_free(&p);
    compare(
        "the drawn answers are those of a batch",
        "\"temperature\":0.9,\"min_p\":0.02,\"dry_multiplier\":0.5,\"seed\":11,\"max_tokens\":40",
        (char *[]){NULL});
    TALK(&p, text, "-n", "40", "-s", "12", "--temp", "1", "--mirostat", "2", "--act", "f32", "--kv",
         "f32");
    check(p.code == 0, "a conversation with other arithmetic", &p);
    process_free(&p);
    compare("the answers are those of a batch, with Mirostat and f32",
            "\"temperature\":1,\"mirostat\":2,\"seed\":12,\"max_tokens\":40",
            (char *[]){"--act", "f32", "--kv", "f32", NULL});
}

/* -sysf is -sys, -st ends after one answer, and -ctk with -ctv is --kv. */
static void spellings(void)
{
    static const struct {
        char *type, *kv;
    } types[] = {{"q8_0", "int8"}, {"q4_0", "int4"}, {"f16", "f16"}, {"f32", "f32"}};
    static const char two[] = "/help\nWhat is the heart?\nWhy?\n", one[] = "What is the heart?\n";
    struct process p, q;
    char path[900];
    snprintf(path, sizeof path, "%s.system", saved);
    write_file(path, "This is a book.\n", 16);
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        char *type = types[i].type;
        TALK(&p, one, "-n", "12", "--temp", "0", "-sys", "This is a book.", "--kv", types[i].kv);
        TALK(&q, two, "-n", "12", "--temp", "0", "-sysf", path, "-st", "-ctk", type, "-ctv", type);
        check(p.code == 0 && q.code == 0 && !strcmp(p.out, q.out) && strlen(q.out) > 5 &&
                  strstr(q.err, "1 answer;"),
              type, &q);
        process_free(&p);
        process_free(&q);
    }
    TALK(&p, two, "-n", "3", "--temp", "0", "-st", "-p", "Who was the king?");
    check(p.code == 0 && strstr(p.err, "1 answer;") && lines(p.out) >= 1, "-st with -p", &p);
    process_free(&p);
    static const struct {
        const char *bytes, *says;
        size_t n;
    } wrong[] = {{"\n", ": is empty", 1}, {"\xff", "not UTF-8", 1}, {"a\0b", "not UTF-8", 3}};
    for (int i = 0; i < 3; i++) {
        write_file(path, wrong[i].bytes, wrong[i].n);
        TALK(&p, one, "-sysf", path);
        check(p.code == 1 && !p.out_bytes && strstr(p.err, wrong[i].says), wrong[i].says, &p);
        process_free(&p);
    }
    unlink(path);
    TALK(&p, one, "-sysf", path);
    check(p.code == 1 && !p.out_bytes && strstr(p.err, "No such file"), "-sysf of no file", &p);
    process_free(&p);
}

/* The same on a GPU (tests/emulators/fibers): what was generated is computed again as part of the
 * next prompt, because the phases of a row differ in bits there. */
static void gpu(const char *build)
{
    char library[700], kernels[700], text[900];
    struct process p;
    snprintf(library, sizeof library, "%s%s/tests/bin/libhip-fibers.so",
             build[0] == '/' ? "" : "./", build);
    snprintf(kernels, sizeof kernels, "%s/gpu/gfx90a.co", build);
    if (access(library, R_OK) || access(kernels, R_OK)) {
        skip("a conversation on a GPU: not in this build");
        return;
    }
    snprintf(text, sizeof text, "What is the heart of the king?\nWho?\nWhy?\n/save %s\n", saved);
    TALK(&p, text, "-n", "4", "--temp", "0", "-v", "--backend", "hip", "--hip-library", library);
    check(p.code == 0 && strstr(p.err, ", 16 of them kept") && strstr(p.err, ", 32 of them kept"),
          "a conversation on a GPU", &p);
    process_free(&p);
    compare("the answers are those of a batch on the GPU", "\"temperature\":0,\"max_tokens\":4",
            (char *[]){"--backend", "hip", "--hip-library", library, "-np", "4", NULL});
}

/* ---- what is computed */

/* The counts of the lines of -v. */
static int counts(const struct process *p, int (*v)[4])
{
    int n = 0;
    for (const char *s = p->err; (s = strstr(s, "prompt ")) && n < 8; s++)
        if (sscanf(s, "prompt %d tokens, %d of them kept, %d computed; generated %d", &v[n][0],
                   &v[n][1], &v[n][2], &v[n][3]) == 4)
            n++;
    return n;
}

/* Each turn computes its new tokens, and of those before at most the rest of a page (16) and the
 * last token, whose keys and values no step has needed. */
static void kept(void)
{
    struct process p;
    int v[8][4];
    TALK(&p, "What is the heart?\nAnd who was the king?\nWhy?\nIs it?\n", "-n", "100", "--temp",
         "0", "-v");
    int n = counts(&p, v);
    check(p.code == 0 && n == 4 && v[0][1] == 0, "-v counts the tokens of four turns", &p);
    for (int i = 0; i < n; i++) {
        check(v[i][0] == v[i][1] + v[i][2], "a prompt is kept or computed", &p);
        if (!i) continue;
        int known = v[i - 1][0] + v[i - 1][3] - 1; /* positions with keys and values */
        check(v[i][1] == known / 16 * 16, "what was computed is kept, the answer, too", &p);
        check(v[i][2] < v[i][0] / 2, "most of a later turn is kept", &p);
    }
    process_free(&p);
    /* a changed system message changes all behind it */
    TALK(&p, "What is the heart?\n/system You are old.\n/regen\n", "-n", "40", "--temp", "0", "-v");
    check(p.code == 0 && counts(&p, v) == 2 && v[1][1] == 0, "/system", &p);
    process_free(&p);
    TALK(&p, "What is the heart of the king?\nWhy?\n/reset\nWhat is the heart of the king?\n", "-n",
         "40", "--temp", "0", "-v");
    n = counts(&p, v);
    check(p.code == 0 && n == 3 && v[2][0] == v[0][0] && v[2][1] > 0, "/reset", &p);
    process_free(&p);
}

/* ---- commands */

/* A byte order mark is no part of the first message, and a backslash at the end of the input none
 * of the last. */
static void edges_of_input(void)
{
    struct process p;
    char text[900];
    static const char *const inputs[] = {"\xef\xbb\xbfWhat is it?\n/save %s\n",
                                         "\xef\xbb\xbf/save %s\n", "/save %s\nWhat is\\\nit?\\"};
    for (int i = 0; i < 3; i++) {
        snprintf(text, sizeof text, inputs[i], saved);
        TALK(&p, text, "-n", "3", "--temp", "0");
        json_t *m = load_messages();
        if (i == 0)
            check(p.code == 0 && !strcmp(content(m, 0), "What is it?"), "no byte order mark", &p);
        if (i == 1) check(p.code == 0 && json_array_size(m) == 0, "a command behind one", &p);
        if (i == 2)
            check(p.code == 0 && strlen(p.out) > 2 && strstr(p.err, "1 answer; "),
                  "a backslash at the end of the input", &p);
        json_decref(m);
        process_free(&p);
        unlink(saved);
    }
}

static void commands(void)
{
    struct process p, q;
    char text[2000];
    /* again with other random numbers, and the same ones in another run */
    for (int i = 0; i < 2; i++)
        TALK(i ? &q : &p, "What is the heart?\n/regen\n/regen\n", "-n", "12", "-s", "3");
    check(p.code == 0 && !strcmp(p.out, q.out), "/regen repeats from run to run", &p);
    process_free(&q);
    TALK(&q, "What is the heart?\n", "-n", "12", "-s", "3");
    size_t n = strlen(q.out);
    check(!strncmp(p.out, q.out, n) && strncmp(p.out + n, q.out, n), "/regen draws anew", &p);
    process_free(&p);
    process_free(&q);
    /* what goes wrong is said, and nothing has changed */
    write_file(input, "{\"messages\": [{\"role\": 3}]}", 27);
    snprintf(
        text, sizeof text,
        "/nonsense\n/reset now\n/regen\n/save\n/load\n/load /nonexistent/x\n/load %s\n/save %s\n"
        "/save /nonexistent/x\nWhat?\n/exit\nnever read\n",
        input, model);
    TALK(&p, text, "-n", "4", "--temp", "0");
    static const char *const says[] = {"/nonsense is no command (/help lists them;",
                                       "/reset takes no text",
                                       "there is nothing to answer",
                                       "/save needs a file",
                                       "/load needs a file",
                                       "/nonexistent/x: No such file",
                                       "messages[0].role is not a text",
                                       "is also the file of -m, which would be written over",
                                       "/nonexistent/x"};
    for (size_t i = 0; i < sizeof says / sizeof *says; i++)
        check(strstr(p.err, says[i]) != NULL, says[i], &p);
    check(p.code == 1 && lines(p.out) == 1 && strstr(p.err, "1 answer;"),
          "a pipe's errors give exit code 1; /exit ends", &p);
    process_free(&p);
    /* a saved conversation goes on where it was, also from a batch's line */
    snprintf(text, sizeof text, "What is the heart?\n/save %s\nWhy?\n", saved);
    TALK(&p, text, "-n", "20", "--temp", "0");
    snprintf(text, sizeof text, "Who?\n/load %s\nWhy?\n/save %s\n", saved, saved);
    TALK(&q, text, "-n", "20", "--temp", "0");
    check(q.code == 0 && strrchr(p.out, 'W') && lines(p.out) >= 2, "/load", &q);
    json_t *m = load_messages();
    check(json_array_size(m) == 4 && strstr(p.out, content(m, 3)) && strstr(q.out, content(m, 3)),
          "/save writes over a saved conversation", &q);
    process_free(&p);
    process_free(&q);
    FILE *f = fopen(input, "w");
    json_t *line = json_pack("{s:s, s:{s:O}}", "custom_id", "x", "body", "messages", m);
    json_dumpf(line, f, 0);
    fclose(f);
    snprintf(text, sizeof text, "/load %s\n/regen\n", input);
    TALK(&p, text, "-n", "20", "--temp", "0");
    check(p.code == 0 && strstr(p.out, content(m, 3)), "/load of a batch's line, /regen", &p);
    process_free(&p);
    json_decref(line);
    json_decref(m);
    /* a first message, text with a slash, a message that is no UTF-8, one that is too long */
    TALK(&p, " /etc/passwd?\n\xff\xfe\n", "-n", "4", "--temp", "0", "-p", "What?");
    check(p.code == 1 && strstr(p.err, "2 answers;") && strstr(p.err, "not valid UTF-8"),
          "-p is the first message", &p);
    process_free(&p);
    TALK(&p, "Who is it that is there, and why is it not here, and what is it?\nHi\n", "-c", "24",
         "--temp", "0");
    check(p.code == 1 && strstr(p.err, "the context 24: /reset begins") &&
              strstr(p.err, "1 answer;") && strstr(p.err, "context of 24 tokens is full"),
          "a context that is full", &p);
    process_free(&p);
}

/* /save: writes over what it wrote itself, with its permissions, and over nothing else. */
static void saves(void)
{
    static const char *const strangers[] = {
        "[1,2,3]\n",
        "[]\n",
        "{\"messages\": [{\"role\": \"user\", \"content\": \"Hi\"}]}\n",
        "{\n \"messages\": [\n  {\n   \"role\": \"user\",\n   \"content\": \"Hi\"\n  }\n ]\n}\n",
        "{\"messages\": [], \"model\": \"x\"}\n",
        "{\"messages\": [], \"metadata\": {\"saved_by\": \"me\"}}\n",
        "{\"messages\": [], \"metadata\": {\"saved_by\": \"opt4gptq-run /save\", \"x\": \"y\"}}\n",
        "{\"messages\": [], \"metadata\": {\"saved_by\": \"opt4gptq-run /save\"}, \"model\": "
        "\"x\"}\n",
        "{\"custom_id\": \"1\", \"body\": {\"messages\": []}}\n",
        "[{\"id\": 1, \"conversations\": []}]\n",
        "{\"messages\": []}\n{\"messages\": []}\n",
        "Dear diary\n",
    };
    struct process p;
    char text[2000], part[620];
    for (size_t i = 0; i < sizeof strangers / sizeof *strangers; i++) {
        size_t n;
        write_file(saved, strangers[i], strlen(strangers[i]));
        snprintf(text, sizeof text, "hello\n/save %s\n", saved);
        TALK(&p, text, "-n", "2", "--temp", "0");
        char *now = read_file(saved, &n);
        check(p.code == 1 && now && !strcmp(now, strangers[i]) &&
                  strstr(p.err, "was not written by /save: it stays as it is"),
              strangers[i], &p);
        process_free(&p);
        free(now);
    }
    unlink(saved);
    snprintf(part, sizeof part, "%s.part", saved);
    write_file(part, "stale", 5);
    snprintf(text, sizeof text, "/save %s\nhello\n/save %s\n", saved, saved);
    TALK(&p, text, "-n", "2", "--temp", "0");
    check(p.code == 0 && !strstr(p.err, "part") && access(part, F_OK),
          "/save twice, where a part was left", &p);
    process_free(&p);
    struct stat st;
    chmod(saved, 0600);
    TALK(&p, text, "-n", "2", "--temp", "0");
    check(p.code == 0 && !stat(saved, &st) && (st.st_mode & 0777) == 0600,
          "/save keeps the permissions", &p);
    process_free(&p);
    snprintf(text, sizeof text, "/save %s\n", saved);
    TALK(&p, text, "-n", "2", "--chat-template-file", saved);
    check(p.code == 1 && strstr(p.err, "is also the file of --chat-template-file"),
          "/save on a file that this run reads", &p);
    process_free(&p);
    unlink(saved);
}

/* ---- what is a message */

/* Messages that a pipe of lines leaves, one a line, without answers. */
static void messages_of(const char *what, const char *text, char *const args[], int code,
                        const char *want)
{
    struct process p;
    char *argv[20] = {run_bin, "-m", model, "-cnv", "-n", "2", "--temp", "0"}, all[4000] = "",
         whole[4000];
    int n = 8;
    for (int i = 0; args[i]; i++) argv[n++] = args[i];
    unlink(saved);
    snprintf(whole, sizeof whole, "%s/save %s\n", text, saved);
    process_run(&p, argv, whole);
    json_t *m = load_messages(), *v;
    size_t i;
    json_array_foreach (m, i, v) {
        if (strcmp(json_string_value(json_object_get(v, "role")), "user")) continue;
        size_t at = strlen(all);
        snprintf(all + at, sizeof all - at, "%s|", content(m, i));
    }
    check(p.code == code && !strcmp(all, want), what, &p);
    if (strcmp(all, want)) printf("messages: %s\n", all);
    json_decref(m);
    process_free(&p);
    unlink(saved);
}

static void messages(void)
{
    struct process p;
    char text[2000], path[620];
    char *none[] = {NULL};
    messages_of("lines that begin with a slash and are no commands",
                "/etc/hosts what is this?\n/usr\n//\n/* x */\n/dev/null\n/home is what?\n"
                "/r/books\n/5\n/ \n/etc/\n /reset\n",
                none, 0,
                "/etc/hosts what is this?|/usr|//|/* x */|/dev/null|/home is what?|/r/books|/5|/ |"
                "/etc/|/reset|");
    static const char *const mistyped[] = {"/rest",    "/savee x", "/HELP", "/hlep",     "/exi",
                                           "/sytem a", "/lod x",   "/bye",  "/nonsense", "/res"};
    for (size_t i = 0; i < sizeof mistyped / sizeof *mistyped; i++) {
        snprintf(text, sizeof text, "%s\n", mistyped[i]);
        messages_of(mistyped[i], text, none, 1, "");
    }
    messages_of("three quotation marks", "\"\"\"one\n\n/reset\n two\"\"\"\n\"\"\"/help\"\"\"\n",
                none, 0, "one\n\n/reset\n two|/help|");
    messages_of("-mli", "one\n\ntwo\\\nthree\\\n", (char *[]){"-mli", NULL}, 0,
                "one\n\ntwo|three|");
    TALK(&p, "\"\"\"one\ntwo\n", "-n", "2");
    check(p.code == 1 && strstr(p.err, "without the other three"), "quotation marks without end",
          &p);
    process_free(&p);
    /* -f: the first message; /read: begins the next one */
    write_file(input, "What is\nthis?\n", 14);
    messages_of("-f", "Why?\n", (char *[]){"-f", input, NULL}, 0, "What is\nthis?\n|Why?|");
    snprintf(path, sizeof path, "%s/notes.txt", dir);
    write_file(path, "one\ntwo", 7);
    snprintf(text, sizeof text, "Hi\n/read %s\n/read %s\nWhy?\nHow?\n/read %s\n/reset\nSo?\n", path,
             input, path);
    messages_of("/read, /reset", text, none, 0, "So?|");
    snprintf(text, sizeof text, "Hi\n/read %s\n/read %s\nWhy?\nHow?\n", path, input);
    messages_of(
        "/read", text, none, 0,
        "Hi|--- File: notes.txt ---\none\ntwo\n--- File: in ---\nWhat is\nthis?\nWhy?|How?|");
    snprintf(text, sizeof text, "/read %s\n", path);
    TALK(&p, text, "-n", "2");
    check(!p.code && strstr(p.err, "1 answer;"), "/read behind which a pipe ends", &p);
    process_free(&p);
    write_file(path, "\xff", 1);
    snprintf(text, sizeof text,
             "/read %s\n/read\n/read /nonexistent/x\n/read %s\n/read /dev/null\n", path, model);
    TALK(&p, text, "-n", "2");
    check(p.code == 1 && strstr(p.err, "is not UTF-8") && strstr(p.err, "/read needs a file") &&
              strstr(p.err, "/nonexistent/x: No such file") && strstr(p.err, "zero bytes") &&
              strstr(p.err, "/dev/null: is not a regular file"),
          "/read of what is no text", &p);
    process_free(&p);
    unlink(path);
    write_file(input, "", 0);
    TALK(&p, "Hi\n", "-f", input);
    check(p.code == 1 && strstr(p.err, "is empty"), "-f of an empty file", &p);
    process_free(&p);
    /* answers that end before their document does */
    TALK(&p, "Hi\n", "--regex", "[a-z]{500}", "-n", "9");
    check(p.code == 0 &&
              strstr(p.err, "note: -n ended the answer before its document was complete"),
          "an answer that -n cuts", &p);
    process_free(&p);
    TALK(&p, "Hi\n", "--regex", "[a-z]{500}", "-c", "30");
    check(p.code == 0 && strstr(p.err, "note: the context ended the answer before its document"),
          "an answer that the context cuts", &p);
    process_free(&p);
    TALK(&p, "Hi\n", "--choice", "yes", "--choice", "no", "-n", "9");
    check(p.code == 0 && !strstr(p.err, "before its document"), "an answer that is whole", &p);
    process_free(&p);
}

/* A model without a template is refused before anything is asked. */
static void no_template(const char *convert_bin)
{
    struct process p;
    char plain[640], command[3000];
    snprintf(plain, sizeof plain, "%s/plain.safetensors", dir);
    snprintf(
        command, sizeof command,
        "cp -r models/demo %s/plain && rm %s/plain/chat_template.jinja && %s -q %s/plain %s && "
        "rm -r %s/plain",
        dir, dir, convert_bin, dir, plain, dir);
    if (system(command)) exit(2);
    for (int i = 0; i < 2; i++) {
        process_run(&p, (char *[]){run_bin, "-m", plain, "-cnv", NULL}, i ? "Hi\n" : "");
        check(p.code == 1 && lines(p.err) == 1 && strstr(p.err, "the model has no chat template"),
              "a model without a chat template", &p);
        process_free(&p);
    }
    unlink(plain);
}

/* ---- reasoning */

static void reasoning(void)
{
    struct process p, q;
    write_thinking();
    for (int chat = 0; chat < 2; chat++) {
        char *how[] = {"keep", "hide", "only"};
        for (int i = 0; i < 3; i++) {
            char *talk[] = {run_bin, "-m", model, "-cnv", THINK, "--reasoning", how[i], NULL},
                 *ask[] = {run_bin, "-m",  model,         "--chat", "-p",
                           "Why?",  THINK, "--reasoning", how[i],   NULL};
            process_run(&p, chat ? ask : talk, chat ? NULL : "Why?\n");
            check(p.code == 0 && (i == 1) == !strcmp(p.out, "\n") && !strchr(p.out, 27), how[i],
                  &p);
            process_free(&p);
        }
    }
    TALK(&p, "Why?\nHow?\n/save /dev/null\n", THINK);
    char command[900];
    snprintf(command, sizeof command, "Why?\nHow?\n/save %s\n", saved);
    TALK(&q, command, THINK);
    json_t *m = load_messages();
    const char *thought =
        json_string_value(json_object_get(json_array_get(m, 1), "reasoning_content"));
    check(p.code == 1 && strstr(p.err, "/dev/null: is there and was not written by /save"),
          "/save to a device", &p);
    check(q.code == 0 && thought && strlen(thought) > 5 && !*content(m, 1) &&
              strstr(q.out, thought),
          "reasoning is kept apart from the answer", &q);
    json_decref(m);
    process_free(&p);
    process_free(&q);
}

static void refusals(void)
{
    static const struct {
        const char *says;
        char *args[6];
    } all[] = {
        {"-i and -cnv exclude each other", {"-cnv", "-i", "x"}},
        {"-cnv and --logits-out exclude each other", {"-cnv", "--logits-out", "x"}},
        {"--format ids: a conversation is text", {"-cnv", "--format", "ids"}},
        {"--reasoning needs --chat or -cnv", {"-p", "x", "--reasoning", "hide"}},
        {"--reasoning on: must be one of keep, hide, only", {"-cnv", "--reasoning", "on"}},
        {"-sys needs --chat or -cnv", {"-p", "x", "-sys", "y"}},
        {"no prompt given", {"--chat"}},
        {"-ins: -cnv is the interactive mode", {"-ins"}},
        {"-f -: stdin has the messages", {"-cnv", "-f", "-"}},
        {"-mli needs -cnv", {"-p", "x", "-mli"}},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        struct process p;
        char *argv[12] = {run_bin, "-m", "/nonexistent"};
        for (int k = 0; k < 6 && (argv[3 + k] = all[i].args[k]); k++) {
        }
        process_run(&p, argv, NULL);
        check(p.code == 2 && lines(p.err) == 1 && strstr(p.err, all[i].says), all[i].says, &p);
        process_free(&p);
    }
    struct process p;
    write_file(template, "{{ raise_exception('not today') }}", 34);
    TALK(&p, "Hi\n", "--chat-template-file", template);
    check(p.code == 1 && strstr(p.err, "not today") && !p.out_bytes, "a template that refuses", &p);
    process_free(&p);
}

int main(int argc, char **argv)
{
    char convert_bin[600];
    if (argc < 2) return 2;
    begin(argv[1]);
    snprintf(convert_bin, sizeof convert_bin, "%s/opt4gptq-convert", argv[1]);
    snprintf(input, sizeof input, "%s/in", dir);
    turns();
    gpu(argv[1]);
    kept();
    edges_of_input();
    spellings();
    commands();
    saves();
    messages();
    no_template(convert_bin);
    reasoning();
    refusals();
    shell_ok("rm -r %s", dir);
    return report("conversation");
}
