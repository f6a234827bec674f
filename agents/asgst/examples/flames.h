/* Stacks as a tree, and the tree as a flame graph or as collapsed lines. What the two small profilers share; no part of ASGST.
 *
 * Not for signal handlers.
 */
#ifndef FLAMES_H
#define FLAMES_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A frame and the frames that it called. */
typedef struct Flame {
  char *name;
  long samples; /* that went through it */
  long own;     /* that ended in it */
  struct Flame *callees;
  struct Flame *next;
} Flame;

/* The callee of that name, which is made if there is none. */
static Flame *flame_callee(Flame *caller, const char *name) {
  for (Flame *callee = caller->callees; callee != NULL; callee = callee->next) {
    if (strcmp(callee->name, name) == 0) {
      return callee;
    }
  }
  Flame *callee = calloc(1, sizeof *callee);
  callee->name = strdup(name);
  callee->next = caller->callees;
  caller->callees = callee;
  return callee;
}

/* Adds one stack, whose first name is the innermost frame's. */
static void flame_add(Flame *root, const char *const *names, int count) {
  root->samples++;
  for (int i = count - 1; i >= 0; i--) {
    root = flame_callee(root, names[i]);
    root->samples++;
  }
  root->own++;
}

/* A name as a JavaScript string; `<` is escaped, too, as it stands in a script element. */
static void flame_quote(FILE *out, const char *name) {
  fputc('"', out);
  for (; *name != 0; name++) {
    unsigned char c = (unsigned char)*name;
    if (c == '"' || c == '\\' || c == '<' || c < 0x20) {
      fprintf(out, "\\u%04x", c);
    } else {
      fputc(c, out);
    }
  }
  fputc('"', out);
}

/* [name, samples, [callees]] */
static void flame_tree(FILE *out, const Flame *flame) {
  fputc('[', out);
  flame_quote(out, flame->name);
  fprintf(out, ",%ld,[", flame->samples);
  for (const Flame *callee = flame->callees; callee != NULL; callee = callee->next) {
    flame_tree(out, callee);
    if (callee->next != NULL) {
      fputc(',', out);
    }
  }
  fputs("]]", out);
}

static void flame_html(FILE *out, const Flame *root, const char *title) {
  fprintf(out,
          "<!DOCTYPE html><html><head><meta charset=\"utf-8\"><title>%s</title><style>\n"
          "body{font:12px sans-serif;margin:8px}#g{position:relative}\n"
          "#g div{position:absolute;height:16px;overflow:hidden;white-space:nowrap;box-sizing:border-box;border:1px solid #fff;cursor:pointer}\n"
          "</style></head><body><p>%s: %ld samples. Click on a frame to see it alone, on the lowest to see all.</p><div id=\"g\"></div><script>\n"
          "const root=",
          title, title, root->samples);
  flame_tree(out, root);
  fputs(";\n"
        "const g=document.getElementById('g');\n"
        "function hue(s){let h=0;for(const c of s)h=(h*31+c.charCodeAt(0))%40;return h+15;}\n"
        "function show(top){g.textContent='';let rows=0;\n"
        " function draw(f,x,w,d){if(w<0.05)return;rows=Math.max(rows,d);const e=document.createElement('div');\n"
        "  e.style.cssText=`left:${x}%;width:${w}%;top:${d*17}px;background:hsl(${hue(f[0])},80%,70%)`;\n"
        "  e.textContent=f[0];e.title=`${f[0]}: ${f[1]} of ${root[1]} (${(100*f[1]/root[1]).toFixed(1)} %)`;\n"
        "  e.onclick=()=>show(d===0?root:f);g.appendChild(e);\n"
        "  for(const c of f[2]){const cw=w*c[1]/f[1];draw(c,x,cw,d+1);x+=cw;}}\n"
        " draw(top,0,100,0);g.style.height=(rows+1)*17+'px';}\n"
        "show(root);\n"
        "</script></body></html>\n",
        out);
}

/* outer;inner samples */
static void flame_collapsed(FILE *out, const Flame *flame, char *line, size_t used, size_t room) {
  int more = snprintf(line + used, room - used, "%s%s", used == 0 ? "" : ";", flame->name);
  if (more < 0 || (size_t)more >= room - used) {
    return;
  }
  used += (size_t)more;
  if (flame->own > 0) {
    fprintf(out, "%s %ld\n", line, flame->own);
  }
  for (const Flame *callee = flame->callees; callee != NULL; callee = callee->next) {
    flame_collapsed(out, callee, line, used, room);
  }
}

/* Writes a flame graph to a path that ends in .html, collapsed stacks to any other. 0 if that fails. */
static int flame_write(const Flame *root, const char *path, const char *title) {
  FILE *out = fopen(path, "w");
  if (out == NULL) {
    return 0;
  }
  size_t length = strlen(path);
  if (length >= 5 && strcmp(path + length - 5, ".html") == 0) {
    flame_html(out, root, title);
  } else {
    static char line[1 << 18];
    flame_collapsed(out, root, line, 0, sizeof line);
  }
  return fclose(out) == 0;
}

#endif
