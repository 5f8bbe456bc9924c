# make install / make uninstall, with DESTDIR and PREFIX; included by the Makefile.
PREFIX     ?= /usr/local
SYSCONFDIR ?= /etc
UNITDIR    ?= /usr/lib/systemd/system
BINDIR      = $(DESTDIR)$(PREFIX)/bin

.PHONY: install
install: build ## binaries, unit, user, configuration below DESTDIR and PREFIX; starts nothing
	install -d '$(BINDIR)' '$(DESTDIR)$(UNITDIR)' '$(DESTDIR)$(SYSCONFDIR)/nightshift' \
	  '$(DESTDIR)/usr/lib/sysusers.d' '$(DESTDIR)/usr/lib/tmpfiles.d' '$(DESTDIR)$(PREFIX)/share/man/man1'
	install -m 0755 bin/supervisor '$(BINDIR)/nightshift-supervisor'
	install -m 0755 bin/worker '$(BINDIR)/nightshift-worker'
	ln -sf nightshift-worker '$(BINDIR)/nightshift'
	sed 's|/usr/local/bin|$(PREFIX)/bin|g; s|/etc/nightshift|$(SYSCONFDIR)/nightshift|g' deploy/systemd/nightshift.service \
	  > '$(DESTDIR)$(UNITDIR)/nightshift.service'
	install -m 0644 deploy/systemd/nightshift.sysusers '$(DESTDIR)/usr/lib/sysusers.d/nightshift.conf'
	install -m 0644 deploy/systemd/nightshift.tmpfiles '$(DESTDIR)/usr/lib/tmpfiles.d/nightshift.conf'
	bin/nightshift man > '$(DESTDIR)$(PREFIX)/share/man/man1/nightshift.1'
	[ -e '$(DESTDIR)$(SYSCONFDIR)/nightshift/nightshift.yaml' ] || \
	  install -m 0644 deploy/nightshift.yaml '$(DESTDIR)$(SYSCONFDIR)/nightshift/nightshift.yaml'
	@[ -n '$(DESTDIR)' ] || echo 'next: systemd-sysusers && systemd-tmpfiles --create && systemctl daemon-reload && systemctl enable --now nightshift'

.PHONY: uninstall
uninstall: ## remove what install put there; configuration, data and logs stay
	rm -f '$(BINDIR)/nightshift-supervisor' '$(BINDIR)/nightshift-worker' '$(BINDIR)/nightshift' \
	  '$(DESTDIR)$(UNITDIR)/nightshift.service' '$(DESTDIR)/usr/lib/sysusers.d/nightshift.conf' \
	  '$(DESTDIR)/usr/lib/tmpfiles.d/nightshift.conf' '$(DESTDIR)$(PREFIX)/share/man/man1/nightshift.1'
